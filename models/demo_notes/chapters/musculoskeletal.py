"""MSK: joints and back."""

from setwise.models.demo_notes.codes import Chapter, Code, Wording

KNEE, BACK, JOINTS = "Knee", "Back", "Joints and bones"


def _knee(code: str, side: str, letter: str, weight: float) -> Code:
    plural = side == "both"
    knee = "both knees" if plural else f"the {side} knee"
    return Code(
        code,
        f"Osteoarthritis, {'both knees' if plural else f'{side} knee'}",
        KNEE,
        weight=weight,
        background=1.2,
        care="home",
        ages=(50, 90),
        company={"END-32": 3, "INJ-60": 1},
        wording=Wording(
            names=(
                f"osteoarthritis of {knee}",
                "bilateral knee osteoarthritis" if plural else f"{side} knee osteoarthritis",
            ),
            short=(f"OA {letter} knee{'s' if plural else ''}", f"{letter} knee OA"),
            vague=("knee osteoarthritis", "knee OA", "knee arthritis"),
            presenting=(
                f"aching in {knee} on stairs for {{months}}",
                f"[stiffness|giving way] of {knee}, worse by evening",
            ),
            denied=(f"locking of {knee}",),
            findings=(
                f"crepitus and reduced flexion of {knee}",
                f"{knee}: small effusion, medial joint line tender",
            ),
            tests=(f"XR {letter} knee{'s' if plural else ''}: [moderate|severe] medial narrowing",),
            treatment=(
                "[physiotherapy|exercises] and topical ibuprofen",
                f"steroid injection to {knee}",
            ),
        ),
    )


CHAPTER = Chapter(
    id="MSK",
    title="Joints and back",
    exclusive=(("MSK-10", "MSK-11", "MSK-12", "MSK-13"), ("MSK-20", "MSK-21")),
    codes=(
        _knee("MSK-10", "left", "L", 1.6),
        _knee("MSK-11", "right", "R", 1.6),
        _knee("MSK-12", "both", "bilat", 0.9),
        Code(
            "MSK-13",
            "Osteoarthritis, knee, side not stated",
            KNEE,
            care="home",
            weight=0.6,
            background=1.4,
            ages=(50, 90),
            company={"END-32": 2},
            wording=Wording(
                names=("knee osteoarthritis", "osteoarthritis of the knee"),
                short=("knee OA", "OA knee"),
                vague=("knee arthritis",),
                presenting=("knee pain on stairs and after sitting, {months}",),
                findings=("knee crepitus, no effusion",),
                treatment=("[physiotherapy|exercises] and topical ibuprofen", "paracetamol"),
            ),
        ),
        Code(
            "MSK-20",
            "Low back pain",
            BACK,
            care="home",
            weight=2.6,
            background=1.4,
            ages=(20, 82),
            wording=Wording(
                names=("mechanical low back pain", "low back strain", "non-specific low back pain"),
                short=("LBP", "mech LBP"),
                vague=("back pain", "bad back"),
                presenting=("low back pain for {days} after [lifting|gardening|moving a sofa]",),
                denied=("back pain", "saddle numbness or loss of bladder control"),
                findings=("paraspinal spasm, straight leg raise full, power normal",),
                treatment=("advice to keep moving", "[physio|back exercises]"),
                medicines=("naproxen 500 mg bd", "codeine 30 mg prn"),
            ),
        ),
        Code(
            "MSK-21",
            "Low back pain with sciatica",
            BACK,
            care="home",
            weight=1.8,
            ages=(25, 78),
            wording=Wording(
                names=("sciatica", "[left|right] sciatica", "lumbar radiculopathy"),
                short=("LBP + sciatica", "L5 radiculopathy"),
                vague=("back pain", "bad back"),
                presenting=(
                    "back pain shooting down the [left|right] leg to the foot for {weeks}",
                ),
                findings=("straight leg raise {30-50} degrees [left|right], ankle jerk reduced",),
                tests=("MRI spine: [L4/5|L5/S1] disc protrusion touching the root",),
                treatment=("[nerve root injection|amitriptyline] and physio",),
            ),
        ),
        Code(
            "MSK-30",
            "Gout",
            JOINTS,
            care="home",
            weight=1.8,
            background=1.8,
            ages=(35, 88),
            company={"CIR-10": 1, "REN-30": 1, "END-32": 1},
            wording=Wording(
                names=("gout", "acute gout", "[acute|recurrent] gout of the [big toe|ankle]"),
                short=("gout flare", "gout"),
                vague=("crystal arthritis", "hot joint"),
                presenting=("hot, swollen, exquisitely tender [big toe|ankle] for {days}",),
                findings=("red hot first MTP joint", "[ankle|toe] too sore for the bedsheet"),
                tests=("Urate: {480-640}",),
                treatment=("colchicine 500 mcg bd", "naproxen 500 mg bd"),
                medicines=("allopurinol [100|300] mg",),
            ),
        ),
        Code(
            "MSK-40",
            "Osteoporosis",
            JOINTS,
            care="home",
            weight=0.6,
            background=3,
            ages=(55, 95),
            company={"INJ-20": 1, "INJ-21": 1},
            wording=Wording(
                names=("osteoporosis",),
                short=("OP", "osteoporosis"),
                vague=("thin bones", "bone protection"),
                presenting=("questions about a DEXA result",),
                tests=("DEXA: T score -{2.6-3.8}",),
                medicines=("alendronic acid 70 mg weekly", "AdCal-D3"),
            ),
        ),
    ),
)
