// What has been on the screen: no key and no button submits a label that was not.

import { clearNotices, notice, ui } from "./notices.js";

// A label is on the screen if this share of it is, above the bar with the buttons.
const WHOLE = 0.95;
const BAR_PX = 64;

const seen = new Set();
const eyes = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) if (isIntersecting) seen.add(target.dataset.seen);
  },
  { threshold: WHOLE, rootMargin: `0px 0px -${BAR_PX}px` },
);

/** Look whether the labels in some part of the page come on the screen. */
export function watch(parts) {
  for (const part of parts.querySelectorAll("[data-seen]")) eyes.observe(part);
}

/** Begin with another document, of which nothing was seen yet. */
export function lookAfresh() {
  seen.clear();
  eyes.disconnect();
}

/** Whether all labels of a set have been on the screen; if not, bring the next ones there and ask. */
export function inSight(set) {
  clearNotices("unseen");
  // A card says only what sets it apart; the other labels are chips, or stand above the cards.
  const parts = [ui.shared, ui.chips, set].flatMap((one) => [...one.querySelectorAll("[data-seen]")]);
  const hidden = parts.find((part) => !seen.has(part.dataset.seen));
  if (!hidden) return true;
  notice("unseen", "Labels of this set were out of sight. Read them, then submit again.");
  hidden.scrollIntoView({ block: "center" });
  return false;
}
