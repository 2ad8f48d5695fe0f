// Takes boxes that have nothing to scroll out of the tab order, and
// shows the end first where a chart whose end matters most is wider than its box. Without this
// script each box is a stop, and shows its beginning; the axes stay in sight either way.

const seen = new ResizeObserver((changes) => {
  for (const { target: box } of changes) {
    const scrolls = box.scrollWidth > box.clientWidth;
    if (scrolls && "endFirst" in box.dataset && box.tabIndex < 0) box.scrollLeft = box.scrollWidth;
    box.tabIndex = scrolls ? 0 : -1;
  }
});
const watch = () => {
  seen.disconnect();
  for (const box of document.querySelectorAll(".chart-box")) {
    box.tabIndex = -1;
    seen.observe(box);
  }
};
watch();
document.addEventListener("refreshed", watch);
