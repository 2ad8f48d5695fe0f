// Tells what a threshold would do while the slider moves. Without it the form asks the server.

const form = document.querySelector("form.slider");
if (form) {
  const curve = JSON.parse(form.dataset.curve);
  const slider = form.elements.threshold;
  const output = form.querySelector("output");

  // As the page itself writes them: 0 % and 100 % only where it is.
  const percent = (share) => {
    if (share === null) return "unknown";
    if (share === 0 || share === 1) return `${100 * share} %`;
    if (share < 0.001) return "< 0.1 %";
    return share > 0.999 ? "> 99.9 %" : `${(100 * share).toFixed(1)} %`;
  };
  const time = (hours) => {
    const [unit, size] = [["hour", 1], ["minute", 1 / 60], ["second", 1 / 3600]]
      .find(([, size]) => hours >= 1.5 * size) ?? ["second", 1 / 3600];
    if (hours > 0 && hours < 0.95 / 3600) return "under a second";
    const number = hours / size;
    const written = Number(number.toFixed(number >= 9.95 ? 0 : 1)).toLocaleString("en");
    return `${written} ${unit}${written === "1" ? "" : "s"}`;
  };

  const tell = () => {
    const at = Number(slider.value);
    // The curve has a row where documents were counted; between two of them it is about between.
    const place = Math.max(curve.findIndex(([threshold]) => threshold >= at - 1e-9), 0);
    const above = curve[place];
    const exact = Math.abs(above[0] - at) < 1e-9 || place === 0;
    const below = exact ? above : curve[place - 1];
    const part = exact ? 0 : (above[0] - at) / (above[0] - below[0]);
    const between = (column) => above[column] + part * (below[column] - above[column]);
    const [, , right, low, high, , worked] = above;
    const known = right === null ? "accuracy unknown" : `${percent(right)} right (${percent(low)} to ${percent(high)})`;
    const reviews = Number(between(5).toPrecision(3)).toLocaleString("en");
    const work = worked === null ? `${reviews} reviews per day` : `${time(between(6))} of reviewing per day`;
    output.textContent = `${at.toFixed(3)}: ${exact ? "" : "about "}${percent(between(1))} sent, ${known}, ${work}`;
  };
  slider.addEventListener("input", tell);
  tell();
}
