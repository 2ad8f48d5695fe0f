"""CIR: heart and vessels."""

from setwise.models.demo_notes.codes import Chapter, Code, Wording

PRESSURE, CORONARY, FAILURE = "Blood pressure", "Coronary disease", "Heart failure"
RHYTHM, CLOTS = "Rhythm", "Clots"


def _leg_clot(code: str, side: str, letter: str) -> Code:
    return Code(
        code,
        f"Deep vein thrombosis, {side} leg",
        CLOTS,
        weight=1.4,
        ages=(25, 90),
        company={"CIR-50": 3, "END-32": 1.5},
        wording=Wording(
            names=(
                f"{side} leg deep vein thrombosis",
                f"{side} femoral DVT",
                f"DVT of the {side} leg",
            ),
            short=(f"{letter} DVT", f"{letter} leg DVT"),
            vague=("DVT", "deep vein thrombosis", "leg clot"),
            presenting=(
                f"[swollen|painful, swollen] {side} calf for {{days}}",
                f"{side} leg swelling [after a long flight|after a week in bed|without injury]",
            ),
            denied=("calf pain", "leg swelling"),
            findings=(f"{side} calf {{3-6}} cm larger, tender over the deep veins",),
            tests=(
                f"Doppler: [fresh|occlusive] thrombus in the {side} [popliteal|femoral] vein",
                "D-dimer: {900-4200}",
            ),
            treatment=("[apixaban|rivaroxaban] for three months", "LMWH then apixaban"),
        ),
    )


CHAPTER = Chapter(
    id="CIR",
    title="Heart and vessels",
    exclusive=(("CIR-30", "CIR-31"), ("CIR-51", "CIR-52"), ("CIR-21", "CIR-22")),
    codes=(
        Code(
            "CIR-10",
            "Hypertension",
            PRESSURE,
            care="home",
            weight=2.5,
            background=16,
            ages=(35, 95),
            company={"END-30": 3, "END-11": 2, "END-32": 2, "REN-30": 1},
            wording=Wording(
                names=("hypertension", "[essential|treated] hypertension", "high blood pressure"),
                short=("HTN", "htn", "↑BP"),
                vague=("raised BP today", "BP a bit up"),
                presenting=("home blood pressure readings around {148-172}/{88-102}",),
                denied=("headache or visual disturbance",),
                findings=("BP {158-188}/{92-108}",),
                tests=("ABPM: daytime mean {146-166}/{86-98}",),
                medicines=(
                    "amlodipine {5|10} mg",
                    "ramipril [2.5|5|10] mg",
                    "losartan 50 mg",
                    "indapamide",
                ),
            ),
        ),
        Code(
            "CIR-20",
            "Angina, stable",
            CORONARY,
            care="home",
            weight=1.5,
            background=2.5,
            ages=(48, 90),
            company={"CIR-10": 3, "END-30": 3, "CIR-22": 2, "END-11": 1},
            wording=Wording(
                names=("stable angina", "angina", "exertional angina"),
                short=("angina", "IHD (angina)"),
                vague=("IHD", "ischaemic heart disease"),
                presenting=("chest tightness on hills for {weeks}, eased by rest[ and GTN|]",),
                denied=("exertional chest pain",),
                tests=("CT coronary arteries: moderate LAD disease",),
                medicines=("GTN spray", "isosorbide mononitrate", "bisoprolol 2.5 mg"),
            ),
        ),
        Code(
            "CIR-21",
            "Myocardial infarction, acute",
            CORONARY,
            care="hospital",
            weight=2.6,
            ages=(42, 92),
            company={"CIR-10": 2, "END-30": 2, "PSY-30": 2, "END-11": 1.5, "CIR-30": 2},
            wording=Wording(
                names=(
                    "acute myocardial infarction",
                    "non-ST elevation myocardial infarction",
                    "[inferior|anterior] STEMI",
                ),
                short=("NSTEMI", "STEMI", "acute MI"),
                vague=("acute coronary syndrome", "ACS", "MI"),
                presenting=(
                    "crushing chest pain into the [left arm|jaw] since [0400|0600|the morning]",
                    "heavy chest pain with sweating and nausea for {2-6} hours",
                ),
                denied=("chest pain", "chest pain or palpitations"),
                findings=("clammy and grey, BP {98-150}/{60-88}",),
                tests=(
                    "ECG: [ST elevation II, III, aVF|anterior ST depression|T inversion V2-V5]",
                    "Troponin: {48-210} rising to {480-2900}",
                ),
                treatment=(
                    "aspirin, ticagrelor and fondaparinux",
                    "[PCI to LAD|PCI with one stent to RCA], dual antiplatelets",
                ),
            ),
        ),
        Code(
            "CIR-22",
            "Myocardial infarction, old",
            CORONARY,
            care="home",
            background=3.5,
            weight=0.3,
            ages=(50, 94),
            company={"CIR-20": 2, "CIR-31": 2, "END-30": 2},
            wording=Wording(
                names=("previous myocardial infarction", "myocardial infarction in {year}"),
                short=("MI {year}", "previous MI", "old MI"),
                vague=("IHD", "ischaemic heart disease", "stents {year}", "MI"),
                presenting=("no more chest pain since the infarct in {year}",),
                tests=("ECG: old inferior Q waves",),
                medicines=("aspirin 75 mg", "clopidogrel 75 mg"),
            ),
        ),
        Code(
            "CIR-30",
            "Heart failure, acute",
            FAILURE,
            care="hospital",
            weight=3.6,
            ages=(55, 95),
            company={"CIR-40": 4, "REN-20": 2, "RES-30": 3, "RES-34": 2, "CIR-22": 2, "REN-30": 2},
            wording=Wording(
                names=(
                    "acute decompensated heart failure",
                    "[decompensated|acute on chronic] heart failure",
                    "acute pulmonary oedema",
                ),
                short=("ADHF", "decomp CCF", "pulm oedema"),
                vague=("CCF", "heart failure", "fluid overload"),
                presenting=(
                    "increasing breathlessness, ankle swelling and [four|three] pillow orthopnoea",
                    "waking at night gasping for breath, legs swelling for {weeks}",
                ),
                denied=("orthopnoea", "ankle swelling or PND"),
                findings=(
                    "raised JVP, bibasal crackles, oedema to the [knees|sacrum|thighs]",
                    "fine crackles to the mid zones, pitting oedema",
                ),
                tests=(
                    "CXR: upper lobe diversion, [Kerley B lines|bat-wing shadowing]",
                    "NT-proBNP: {3200-14000}",
                ),
                treatment=(
                    "IV furosemide, fluid restriction and daily weights",
                    "furosemide infusion, {4-9} kg off",
                ),
            ),
        ),
        Code(
            "CIR-31",
            "Heart failure, chronic",
            FAILURE,
            care="home",
            weight=1,
            background=4,
            ages=(55, 95),
            company={"CIR-40": 3, "CIR-22": 2, "REN-30": 1.5},
            wording=Wording(
                names=(
                    "chronic heart failure",
                    "[HFrEF|HFpEF|left ventricular systolic dysfunction]",
                ),
                short=("HFrEF", "chronic CCF", "LVSD"),
                vague=("CCF", "heart failure"),
                presenting=("steady weight, breathless on [hills|stairs], NYHA [II|III]",),
                findings=("euvolaemic, trace ankle oedema",),
                tests=("Echo: EF {25-44}%",),
                medicines=("furosemide 40 mg", "sacubitril-valsartan", "spironolactone 25 mg"),
            ),
        ),
        Code(
            "CIR-40",
            "Atrial fibrillation",
            RHYTHM,
            weight=2.4,
            background=7,
            ages=(52, 96),
            company={"CIR-10": 2, "CIR-31": 2},
            wording=Wording(
                names=(
                    "atrial fibrillation",
                    "[permanent|paroxysmal|persistent] atrial fibrillation",
                ),
                short=("AF", "PAF", "[fast|perm] AF"),
                vague=("irregular pulse", "on a DOAC"),
                presenting=(
                    "palpitations for {days}, [lightheaded|short of breath on the stairs]",
                ),
                denied=("palpitations",),
                findings=("irregularly irregular pulse, rate {112-156}",),
                tests=("ECG: AF, rate {104-158}",),
                medicines=("apixaban 5 mg bd", "bisoprolol 2.5 mg", "edoxaban 60 mg", "digoxin"),
            ),
        ),
        Code(
            "CIR-50",
            "Pulmonary embolism",
            CLOTS,
            care="hospital",
            weight=2,
            ages=(25, 90),
            company={"RES-30": 3, "CIR-51": 2, "CIR-52": 2},
            wording=Wording(
                names=("pulmonary embolism", "[bilateral|segmental|submassive] pulmonary emboli"),
                short=("PE", "bilat PEs", "PE"),
                vague=("clot on the lung", "VTE"),
                presenting=(
                    "sudden pleuritic chest pain and breathlessness",
                    "collapse with breathlessness {days} after [a long flight|knee surgery]",
                ),
                denied=("pleuritic pain", "haemoptysis"),
                findings=("HR {104-128}, sats {86-93}%, chest clear",),
                tests=(
                    "CTPA: [segmental|bilateral|saddle] [embolus|emboli]",
                    "D-dimer: {1200-6400}",
                ),
                treatment=("[apixaban|rivaroxaban] loading dose", "treatment-dose dalteparin"),
            ),
        ),
        _leg_clot("CIR-51", "left", "L"),
        _leg_clot("CIR-52", "right", "R"),
    ),
)
