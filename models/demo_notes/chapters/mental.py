"""PSY: mood and habits."""

from setwise.models.demo_notes.codes import Chapter, Code, Wording

MOOD, SUBSTANCES = "Mood", "Substances"

CHAPTER = Chapter(
    id="PSY",
    title="Mood and habits",
    exclusive=(("PSY-30", "PSY-31"),),
    codes=(
        Code(
            "PSY-10",
            "Depression",
            MOOD,
            care="home",
            weight=2.4,
            background=5,
            ages=(16, 90),
            company={"PSY-12": 3, "PSY-20": 1},
            wording=Wording(
                names=("depression", "[moderate|recurrent] depression", "depressive episode"),
                short=("depression", "low mood/depression"),
                vague=("low mood", "mental health problems"),
                presenting=("low mood, poor sleep and no enjoyment for {weeks}",),
                denied=("low mood", "thoughts of self-harm"),
                findings=("flat affect, [tearful|poor eye contact], no suicidal plans",),
                tests=("PHQ-9: {13-23}",),
                medicines=("sertraline [50|100] mg", "mirtazapine 15 mg nocte", "citalopram 20 mg"),
            ),
        ),
        Code(
            "PSY-12",
            "Anxiety disorder",
            MOOD,
            care="home",
            weight=1.8,
            background=3,
            ages=(16, 80),
            company={"PSY-10": 2},
            wording=Wording(
                names=("generalised anxiety disorder", "anxiety", "panic disorder"),
                short=("GAD", "anxiety"),
                vague=("stress", "mental health problems"),
                presenting=("constant worry, [racing heart|panic in shops] for {months}",),
                denied=("panic attacks",),
                findings=("restless, wringing hands, normal thoughts",),
                tests=("GAD-7: {11-20}",),
                medicines=(
                    "sertraline [50|100] mg",
                    "propranolol 10 mg prn",
                    "pregabalin 75 mg bd",
                ),
            ),
        ),
        Code(
            "PSY-20",
            "Alcohol dependence",
            SUBSTANCES,
            weight=2,
            background=1.8,
            ages=(22, 78),
            company={"PSY-30": 3, "PSY-10": 2, "DIG-28": 2},
            wording=Wording(
                names=("alcohol dependence", "alcohol dependence syndrome", "alcohol withdrawal"),
                short=("EtOH dependence", "EtOH ++"),
                vague=("alcohol excess", "drinks heavily"),
                presenting=("[shaking|sweating and shaking] since stopping {60-90} units a week",),
                denied=("alcohol excess",),
                findings=("tremulous and sweaty, CIWA {12-24}",),
                treatment=(
                    "chlordiazepoxide reducing regime and Pabrinex",
                    "alcohol team referral",
                ),
                medicines=("thiamine 100 mg bd", "acamprosate 666 mg tds"),
            ),
        ),
        Code(
            "PSY-30",
            "Tobacco use, current",
            SUBSTANCES,
            care="home",
            weight=0.5,
            background=5,
            ages=(16, 85),
            social=True,
            wording=Wording(
                names=("smokes {5-30} a day", "current smoker", "smoker, {10-50} pack years"),
                short=("smokes {10-40}/day", "current smoker"),
                vague=("smoking history", "{20-50} pack year history"),
                presenting=("a wish to stop smoking",),
                treatment=("nicotine patches", "varenicline"),
            ),
        ),
        Code(
            "PSY-31",
            "Tobacco use, former",
            SUBSTANCES,
            background=4,
            ages=(35, 92),
            social=True,
            wording=Wording(
                names=("ex-smoker", "stopped smoking in {year}", "ex-smoker, {10-50} pack years"),
                short=("ex-smoker", "ex-smoker, quit {year}"),
                vague=("smoking history", "{20-50} pack year history"),
            ),
        ),
    ),
)
