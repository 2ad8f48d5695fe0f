// Says what a threshold would do while the slider moves. Without it the form asks the server.

function follow() {
  const form = document.querySelector("form.slider");
  if (!form) return;
  const sentences = JSON.parse(form.dataset.sentences);
  const slider = form.elements.threshold;
  const say = () => {
    form.querySelector("output").textContent = sentences[Math.round(slider.value / slider.step)];
  };
  slider.addEventListener("input", say);
  say();
}

follow();
document.addEventListener("refreshed", follow);
