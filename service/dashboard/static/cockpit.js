// Tells what a threshold would do while the slider moves. Without it the form asks the server.

const form = document.querySelector("form.slider");
if (form) {
  const curve = JSON.parse(form.dataset.curve);
  const slider = form.elements.threshold;
  const output = form.querySelector("output");
  const percent = (share) => (share === null ? "unknown" : `${(100 * share).toFixed(1)} %`);

  const tell = () => {
    const at = Number(slider.value);
    // The nearest threshold of the curve that sends no more than this one.
    const row = curve.find(([threshold]) => threshold >= at - 1e-9) ?? curve[curve.length - 1];
    const [, sent, right, low, high, reviews, hours] = row;
    const known = right === null ? "accuracy unknown" : `${percent(right)} right (${percent(low)} to ${percent(high)})`;
    const work = hours === null ? `${reviews} reviews a day` : `${hours.toFixed(1)} reviewer hours a day`;
    output.textContent = `${at.toFixed(3)}: about ${percent(sent)} sent, ${known}, ${work}`;
  };
  slider.addEventListener("input", tell);
  tell();
}
