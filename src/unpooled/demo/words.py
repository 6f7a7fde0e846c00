"""What the demo says in words, every figure in it taken from the results."""

from __future__ import annotations

from .consortium import FEATURES, FEATURES_SECOND, ROUNDS
from .playing import Played
from .study import HOSPITALS, N_STUDIES, studies

TITLE = "Four hospitals, one model, no pooled rows"

STEPS = (
    f"A basis goes out: {FEATURES} functions of the inputs, made of the public patients. Everybody can compute them.",
    "A summary comes back from each hospital: sums over its patients of those functions, and of the functions times "
    "the heart rate. The hospital's own policy decides whether the file may leave, and its log keeps what left.",
    "The files add up, and a model is made of the sum. That is LESS.",
    f"In residual rounds the model goes out and the sums of its errors come back, {ROUNDS} exchanges in all.",
    "A summary of second order also has the sums of products of the functions. It says more about the patients, so "
    "the policy asks for five patients for each function: the basis for it has "
    f"{FEATURES_SECOND} of them, as many as VA Long Beach can answer to.",
)


def beginning(played: Played) -> list[str]:
    """What was done."""
    data, first = played.data, next(studies(played.data))
    counts = ", ".join(f"{name} {(data.sites == site).sum()}" for site, name in HOSPITALS.items())
    return [
        f"How fast can a patient's heart beat in an exercise test? {len(data.y)} patients of four hospitals ({counts}) "
        f"are known by {data.X.shape[1]} inputs, from age to the kind of chest pain, and by the hospital they came to. "
        "Each hospital would like a model that has seen them all, and none may show its patients to the others.",
        f"The study is played through {N_STUDIES} times. Each time two tenths of the patients are public, as far as "
        f"their inputs go ({first.public.sum()} patients in the first study; their heart rates are not used), two "
        f"tenths are kept for testing ({first.test.sum()}), and the others are at their hospitals "
        f"({first.private.sum()}). Over all of the studies every patient is tested once, by models that have not seen "
        "that patient.",
        "Everything that is exchanged is a file. All methods use the same Gaussian kernel, its length scale and the "
        "scale of the inputs taken from the public patients, and choose λ themselves, without the test patients.",
    ]


def lessons(played: Played) -> list[str]:
    """What a reader should see, also where a method falls short."""
    m = played.methods
    local = [m[f"local {site}"].rmse for site in HOSPITALS]
    own, pooled, rounds, less, second = (m[key] for key in ("own", "pooled", "rounds", "less", "second"))
    gain = {site: own.by_hospital[site] - rounds.by_hospital[site] for site in HOSPITALS}
    best, worst = max(gain, key=lambda s: gain[s]), min(gain, key=lambda s: gain[s])
    return [
        f"One hospital's model does not serve the others: their errors on everybody are {min(local):.1f} to "
        f"{max(local):.1f}. On its own patients each does well, {own.rmse:.1f} taken together.",
        f"The average of the four functions ({m['averaged'].rmse:.1f}) does not mend that: it is good where sites have "
        "patients of the same kind, and these hospitals differ. It also gives away as much as the rows themselves: a "
        "function of this sort carries the inputs of every patient it was learned from.",
        f"LESS comes to {less.rmse:.1f} with {less.mean_numbers:.0f} numbers a hospital and one exchange. It takes the "
        "covariance of the functions from the public patients, who are not quite like the others; from the sums alone "
        f"it expects to be off by about {played.floor:.0f} beats for that reason.",
        f"Residual rounds remove most of that with messages of the same kind: {rounds.rmse:.1f} after {ROUNDS} "
        f"exchanges, where all rows in one place give {pooled.rmse:.1f}.",
        f"Second order needs one exchange and no likeness of the public patients: with {FEATURES} functions and every "
        f"hospital it would come to {m['second large'].rmse:.1f}. But Switzerland and VA Long Beach are too small to "
        f"send that much. With {FEATURES_SECOND} functions, and without Switzerland, which is too small even for "
        f"these, it comes to {second.rmse:.1f}, and for Swiss patients, of whom it has seen none, to "
        f"{second.by_hospital['switzerland']:.1f}. It is for sites of hundreds of rows.",
        "Every model is told whose patient it is. Hospitals differ in more than their patients' inputs, and a model "
        "that has to find a middle way between them is worse even with all rows in one place: "
        f"{m['unaware'].rmse:.1f}.",
        "What these data do not show is a large gain for a hospital that only asks about its own patients. Beside its "
        f"own model, the residual rounds gain {gain[best]:.1f} beats for {HOSPITALS[best]} and lose "
        f"{-gain[worst]:.1f} for {HOSPITALS[worst]}; even all rows in one place gain no more than "
        f"{own.rmse - pooled.rmse:.1f} over all. What the hospitals get is one model for all of them.",
        "No noise was added to anything here: these sums are not differentially private. What keeps them from giving a "
        "patient away is that there are many patients and few numbers, and that is what the policies check, for each "
        "file by itself.",
    ]
