"""SKN, BLD and INF: skin, blood, and infection of the whole body."""

from setwise.models.demo_notes.codes import Chapter, Code, Wording


def _cellulitis(code: str, side: str, letter: str) -> Code:
    return Code(
        code,
        f"Cellulitis, {side} leg",
        "Infection",
        weight=2,
        ages=(28, 94),
        company={"END-11": 2, "END-32": 2, "INF-10": 1.5},
        wording=Wording(
            names=(f"{side} leg cellulitis", f"cellulitis of the {side} [lower leg|shin]"),
            short=(f"{letter} leg cellulitis", f"cellulitis {letter} leg"),
            vague=("leg cellulitis", "cellulitis", "red leg"),
            presenting=(f"red, hot, swollen {side} shin for {{days}}",),
            findings=(
                f"spreading erythema {side} leg to the knee, tender and warm",
                f"{side} calf red, margin marked",
            ),
            tests=("CRP: {64-210}",),
            treatment=(
                "flucloxacillin [500 mg|1 g] qds",
                "IV teicoplanin via [OPAT|ambulatory care]",
            ),
        ),
    )


SKIN = Chapter(
    id="SKN",
    title="Skin",
    exclusive=(("SKN-10", "SKN-11"),),
    codes=(
        _cellulitis("SKN-10", "left", "L"),
        _cellulitis("SKN-11", "right", "R"),
        Code(
            "SKN-20",
            "Pressure ulcer",
            "Ulcers",
            weight=1,
            ages=(66, 97),
            company={"NEU-42": 3, "INF-10": 1},
            wording=Wording(
                names=("[sacral|heel] pressure ulcer", "grade [2|3] pressure ulcer"),
                short=("PU", "sacral PU gr [2|3]"),
                vague=("sore sacrum", "skin damage"),
                presenting=("a sacral sore noticed by the district nurse",),
                findings=("grade [2|3] sacral sore, {2-6} cm",),
                treatment=("air mattress, two-hourly turns, TVN review",),
            ),
        ),
    ),
)

BLOOD = Chapter(
    id="BLD",
    title="Blood",
    codes=(
        Code(
            "BLD-10",
            "Anaemia, iron deficiency",
            "Anaemia",
            weight=1.6,
            background=3,
            ages=(18, 94),
            wording=Wording(
                names=("iron deficiency anaemia", "iron-deficiency anaemia"),
                short=("IDA", "Fe def anaemia"),
                vague=("anaemia", "low Hb"),
                presenting=("tired and breathless on stairs for {weeks}, looks pale",),
                findings=("pale conjunctivae",),
                tests=("Hb: {72-102}, MCV {66-78}", "Ferritin: {3-11}"),
                treatment=("iron infusion", "iron tablets and a GI work-up"),
                medicines=("ferrous sulfate 200 mg", "ferrous fumarate 210 mg"),
            ),
        ),
    ),
)

INFECTION = Chapter(
    id="INF",
    title="General infection",
    codes=(
        Code(
            "INF-10",
            "Sepsis",
            "Sepsis",
            care="hospital",
            weight=0.5,
            ages=(30, 96),
            requires=(
                "RES-14",
                "RES-15",
                "REN-11",
                "REN-10",
                "DIG-21",
                "SKN-10",
                "SKN-11",
                "DIG-30",
                "SKN-20",
            ),
            company={"REN-20": 4, "NEU-40": 1},
            wording=Wording(
                names=("sepsis", "[severe|community-acquired] sepsis"),
                short=("sepsis", "septic"),
                vague=("septic picture", "raised inflammatory markers", "?septic"),
                presenting=("rigors and [drowsiness|mottled skin]",),
                findings=("HR {112-138}, BP {82-96}/{44-56}, NEWS {7-12}",),
                tests=("Lactate: {2.4-5.8}", "Blood cultures: [E. coli|gram-positive cocci]"),
                treatment=("sepsis six within the hour", "30 ml/kg crystalloid, IV antibiotics"),
            ),
        ),
    ),
)
