"""REN: kidneys and urine."""

from setwise.models.demo_notes.codes import Chapter, Code, Wording

INFECTION, KIDNEY, FLOW = "Infection", "Kidney function", "Flow and stones"


def _stone(code: str, side: str, letter: str) -> Code:
    return Code(
        code,
        f"Kidney stone, {side}",
        FLOW,
        weight=1.5,
        care="hospital",
        ages=(22, 75),
        company={"REN-11": 1, "REN-20": 1},
        wording=Wording(
            names=(f"{side} renal colic", f"{side} ureteric stone", f"{side} kidney stone"),
            short=(f"{letter} renal colic", f"{letter} VUJ stone", f"{letter} ureteric calculus"),
            vague=("renal colic", "ureteric stone", "kidney stone"),
            presenting=(
                f"severe {side} loin to groin pain, [pacing about|cannot lie still]",
                f"colicky {side} flank pain since [midnight|the early hours], vomited twice",
            ),
            denied=("loin pain",),
            findings=(f"{side} renal angle tender, abdomen soft", "[2|3]+ blood on dipstick"),
            tests=(f"CT KUB: {{3-9}} mm stone, [mid|distal] {side} ureter",),
            treatment=("diclofenac PR and tamsulosin", "analgesia, stone clinic in {weeks}"),
        ),
    )


CHAPTER = Chapter(
    id="REN",
    title="Kidneys and urine",
    exclusive=(("REN-10", "REN-11"), ("REN-30", "REN-31"), ("REN-42", "REN-43")),
    codes=(
        Code(
            "REN-10",
            "Urinary tract infection, lower",
            INFECTION,
            weight=4.5,
            ages=(18, 96),
            company={"NEU-40": 2, "INF-10": 1, "REN-40": 1, "INJ-60": 1, "END-40": 1},
            wording=Wording(
                names=(
                    "lower urinary tract infection",
                    "[uncomplicated|simple] cystitis",
                    "cystitis",
                ),
                short=("UTI", "lower UTI", "cystitis"),
                vague=("urine infection", "urosepsis", "UTI"),
                presenting=(
                    "[stinging|burning] on passing urine and frequency for {days}",
                    "dysuria, urgency and [cloudy|smelly] urine, {days}",
                ),
                denied=("dysuria", "urinary symptoms", "frequency or dysuria"),
                findings=("mild suprapubic tenderness, loins non-tender",),
                tests=("Urine dip: nitrites +ve, leuc [2+|3+]", "MSU: E. coli >10^5"),
                treatment=("nitrofurantoin 100 mg bd for [3|7] days", "trimethoprim 200 mg bd"),
            ),
        ),
        Code(
            "REN-11",
            "Pyelonephritis, acute",
            INFECTION,
            care="hospital",
            weight=2,
            ages=(18, 85),
            company={"INF-10": 3, "REN-20": 2, "END-40": 1},
            wording=Wording(
                names=("acute pyelonephritis", "[left|right]-sided pyelonephritis", "upper UTI"),
                short=("pyelo", "pyelonephritis"),
                vague=("urine infection", "urosepsis", "UTI"),
                presenting=(
                    "loin pain, fever and rigors for {days}",
                    "flank pain with vomiting and temp {38.4-39.8}",
                ),
                findings=("[left|right] loin tender, temp {38.2-39.7}",),
                tests=("Urine dip: nitrites +ve, leuc 3+, blood 1+", "USS renal: no obstruction"),
                treatment=("IV gentamicin then oral ciprofloxacin", "co-amoxiclav for {7-10} days"),
            ),
        ),
        Code(
            "REN-20",
            "Acute kidney injury",
            KIDNEY,
            care="hospital",
            weight=2,
            ages=(45, 96),
            company={"END-40": 4, "REN-30": 2, "REN-40": 2},
            wording=Wording(
                names=(
                    "acute kidney injury",
                    "acute kidney injury stage [1|2|3]",
                    "[pre-renal] acute kidney injury",
                ),
                short=("AKI", "AKI [1|2|3]"),
                vague=("renal impairment", "deranged U&Es"),
                presenting=("abnormal kidney bloods at the surgery and little urine",),
                tests=("U&E: creat {168-410} (baseline {72-98})",),
                treatment=("IV fluids, ramipril held", "nephrotoxics stopped, bloods daily"),
            ),
        ),
        Code(
            "REN-30",
            "Chronic kidney disease, stage 3",
            KIDNEY,
            care="home",
            weight=0.7,
            background=5.5,
            ages=(52, 95),
            company={"CIR-10": 3},
            wording=Wording(
                names=("chronic kidney disease stage 3", "CKD stage [3a|3b]"),
                short=("CKD3", "CKD 3[a|b]"),
                vague=("CKD", "chronic kidney disease", "renal impairment"),
                presenting=("no symptoms, called in about kidney bloods",),
                tests=("eGFR: {32-57}, stable",),
                medicines=("[ramipril 2.5 mg|candesartan 8 mg]", "dapagliflozin 10 mg"),
            ),
        ),
        Code(
            "REN-31",
            "Chronic kidney disease, stage 4",
            KIDNEY,
            care="home",
            weight=0.7,
            background=1.2,
            ages=(50, 92),
            company={"CIR-10": 3, "BLD-10": 2},
            wording=Wording(
                names=(
                    "chronic kidney disease stage 4",
                    "advanced chronic kidney disease, stage 4",
                ),
                short=("CKD4", "CKD 4"),
                vague=("CKD", "chronic kidney disease", "renal impairment"),
                presenting=("itching and tiredness",),
                tests=("eGFR: {16-28}",),
                medicines=("[alfacalcidol|sodium bicarbonate]", "darbepoetin"),
            ),
        ),
        Code(
            "REN-40",
            "Urinary retention",
            FLOW,
            care="hospital",
            weight=1.8,
            ages=(52, 94),
            company={"DIG-50": 3, "REN-10": 2, "REN-20": 1},
            wording=Wording(
                names=("acute urinary retention", "urinary retention"),
                short=("AUR", "retention"),
                vague=("difficulty passing urine",),
                presenting=("inability to pass urine for {8-20} hours and lower abdominal pain",),
                denied=("hesitancy or poor stream",),
                findings=(
                    "palpable bladder to the umbilicus",
                    "smooth enlarged prostate, bladder palpable",
                ),
                tests=("Bladder scan: {650-1200} ml",),
                treatment=(
                    "catheter, residual {700-1300} ml",
                    "[12|14] Ch catheter and tamsulosin, TWOC in {weeks}",
                ),
            ),
        ),
        _stone("REN-42", "left", "L"),
        _stone("REN-43", "right", "R"),
    ),
)
