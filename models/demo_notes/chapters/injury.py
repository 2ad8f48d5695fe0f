"""INJ: injuries and how they came about."""

from setwise.models.demo_notes.codes import Chapter, Code, Wording

FRACTURES, SPRAINS, HEAD, CAUSE = "Fractures", "Sprains and wounds", "Head", "Cause"


def _wrist(code: str, side: str, letter: str) -> Code:
    return Code(
        code,
        f"Fracture of wrist, {side}",
        FRACTURES,
        weight=1.7,
        care="hospital",
        ages=(18, 92),
        company={"INJ-60": 9, "MSK-40": 2, "INJ-40": 1},
        wording=Wording(
            names=(
                f"{side} distal radius fracture",
                f"[Colles'|closed] fracture of the {side} wrist",
            ),
            short=(f"# {letter} wrist", f"# {letter} distal radius"),
            vague=("wrist fracture", "# wrist", "wrist injury"),
            presenting=(
                f"painful swollen {side} wrist after landing on the outstretched hand",
                f"{side} wrist pain and deformity for {{2-10}} hours",
            ),
            findings=(f"{side} wrist: dinner-fork deformity, [median nerve intact|NV intact]",),
            tests=(f"XR {letter} wrist: [dorsally angulated|undisplaced] distal radius fracture",),
            treatment=(
                "manipulation under haematoma block, backslab",
                "backslab and fracture clinic",
            ),
        ),
    )


def _hip(code: str, side: str, letter: str) -> Code:
    return Code(
        code,
        f"Fracture of hip, {side}",
        FRACTURES,
        weight=1.5,
        care="hospital",
        ages=(62, 97),
        company={"INJ-60": 9, "MSK-40": 4, "NEU-40": 2, "NEU-42": 2},
        wording=Wording(
            names=(f"{side} neck of femur fracture", f"fractured {side} hip"),
            short=(f"# {letter} NOF", f"{letter} NOF #"),
            vague=("hip fracture", "# NOF", "hip injury"),
            presenting=(
                f"{side} hip pain, unable to weight bear",
                f"{side} hip pain after a night on the floor",
            ),
            findings=(f"{side} leg shortened and externally rotated",),
            tests=(f"XR pelvis: [displaced|impacted] {side} intracapsular fracture",),
            treatment=(
                f"{side} hemiarthroplasty",
                f"{side} dynamic hip screw",
                "fascia iliaca block, hip fracture pathway",
            ),
        ),
    )


def _ankle(code: str, side: str, letter: str) -> Code:
    return Code(
        code,
        f"Sprain of ankle, {side}",
        SPRAINS,
        weight=1.4,
        care="home",
        ages=(16, 70),
        company={"INJ-60": 2},
        wording=Wording(
            names=(f"{side} ankle sprain", f"lateral ligament sprain of the {side} ankle"),
            short=(f"{letter} ankle sprain", f"sprained {letter} ankle"),
            vague=("ankle sprain", "soft tissue injury to the ankle", "ankle injury"),
            presenting=(f"inversion injury to the {side} ankle [at football|on a kerb|on a run]",),
            findings=(
                f"{side} lateral malleolus swollen, no bony tenderness",
                "tender over the ATFL, Ottawa negative",
            ),
            tests=(f"XR {letter} ankle: no fracture",),
            treatment=("ice, elevation and early movement", "Tubigrip and crutches"),
        ),
    )


CHAPTER = Chapter(
    id="INJ",
    title="Injury",
    exclusive=(
        ("INJ-10", "INJ-11"),
        ("INJ-20", "INJ-21"),
        ("INJ-30", "INJ-31", "INJ-32"),
    ),
    codes=(
        _wrist("INJ-10", "left", "L"),
        _wrist("INJ-11", "right", "R"),
        _hip("INJ-20", "left", "L"),
        _hip("INJ-21", "right", "R"),
        _ankle("INJ-30", "left", "L"),
        _ankle("INJ-31", "right", "R"),
        Code(
            "INJ-32",
            "Sprain of ankle, side not stated",
            SPRAINS,
            weight=0.8,
            care="home",
            ages=(16, 70),
            wording=Wording(
                names=("ankle sprain", "sprained ankle"),
                short=("ankle sprain",),
                vague=("ankle injury", "soft tissue injury to the ankle"),
                presenting=("a painful ankle after rolling it [at football|on a kerb|on a run]",),
                findings=("tender over the ATFL, Ottawa negative",),
                treatment=("ice, elevation and early movement", "Tubigrip and crutches"),
            ),
        ),
        Code(
            "INJ-40",
            "Head injury, minor",
            HEAD,
            weight=2.4,
            ages=(16, 94),
            company={"INJ-60": 6, "INJ-50": 1, "PSY-20": 2, "NEU-50": 2},
            wording=Wording(
                names=("minor head injury", "[mild|minor] head injury", "concussion"),
                short=("HI", "minor HI"),
                vague=("bump to the head",),
                presenting=(
                    "a knock to the head on the [kerb|door frame|floor], brief dizziness, no LOC",
                ),
                denied=("loss of consciousness", "LOC, vomiting or amnesia"),
                findings=("GCS 15, [forehead haematoma|occipital boggy swelling]",),
                tests=("CT head: no bleed, no fracture",),
                treatment=("head injury advice sheet, adult at home",),
            ),
        ),
        Code(
            "INJ-50",
            "Laceration of hand",
            SPRAINS,
            weight=1.8,
            care="home",
            ages=(16, 80),
            wording=Wording(
                names=("laceration of the [left|right] hand", "hand laceration"),
                short=("[L|R] hand lac", "hand lac"),
                vague=("cut", "wound"),
                presenting=(
                    "a cut to the [palm|thumb web|index finger] from [a knife|broken glass|a tin]",
                ),
                findings=("{2-5} cm clean wound, tendons and sensation intact",),
                treatment=(
                    "{3-8} sutures under local, tetanus booster",
                    "wound washed out, glue and Steri-Strips",
                ),
            ),
        ),
        Code(
            "INJ-60",
            "Fall",
            CAUSE,
            weight=1.4,
            ages=(45, 97),
            company={"NEU-42": 2, "CIR-10": 1},
            wording=Wording(
                names=("mechanical fall", "fall", "[unwitnessed|recurrent] falls"),
                short=("fall", "mech fall"),
                vague=("off legs", "mobility problems"),
                presenting=(
                    "a trip over [the dog|a rug|a step]",
                    "a slip on [ice|a wet floor|the stairs]",
                    "a fall [in the bathroom|getting out of bed|in the garden]",
                ),
                denied=("falls", "any recent falls"),
                findings=("[unsteady on turning|bruised hip and elbow], no long lie",),
                treatment=("falls clinic and [walking frame|physio]",),
            ),
        ),
    ),
)
