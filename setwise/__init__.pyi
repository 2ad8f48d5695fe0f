# The public names. `__init__.py` reads this file and loads each name on first use.

from setwise.models.classifier import SetClassifier as SetClassifier
from setwise.models.data.dataset_files import read_dataset as read_dataset
from setwise.models.data.datasets import Dataset as Dataset
from setwise.models.data.formats.layout import FileLayout as FileLayout
from setwise.models.data.lines import DataError as DataError
from setwise.models.data.lines import DataWarning as DataWarning
from setwise.models.evaluation.evaluation import evaluate as evaluate
from setwise.models.evaluation.judging import ScoreJudgement as ScoreJudgement
from setwise.models.evaluation.judging import judge_scores as judge_scores
from setwise.models.evaluation.label_table import LabelTable as LabelTable
from setwise.models.evaluation.label_table import label_table as label_table
from setwise.models.evaluation.metrics import Metrics as Metrics
from setwise.models.guarantees.certificates import Certificate as Certificate
from setwise.models.guarantees.certificates import CertificateRefusal as CertificateRefusal
from setwise.models.guarantees.certify import certify as certify
from setwise.models.options import TrainingOptions as TrainingOptions
from setwise.models.options import TrainingWarning as TrainingWarning
from setwise.models.predictor import RankedSet as RankedSet
from setwise.models.predictor import SetPredictions as SetPredictions
from setwise.models.predictor import SetPredictor as SetPredictor
from setwise.models.predictor import UnknownFeatures as UnknownFeatures
from setwise.models.storage.artifacts import load as load
from setwise.models.storage.artifacts import save as save
from setwise.models.storage.sealed_folder import ArtifactError as ArtifactError
from setwise.models.training import train as train
