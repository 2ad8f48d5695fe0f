// Whether a key press is a command: it is text while a word is typed or composed, and for a moment
// after a dialog has closed, when the rest of what was typed there may still arrive.

const REST_OF_DIALOG_MS = 250;

let closedAt = -Infinity;
// Not by the event "close", which may come after the next key.
new MutationObserver((changes) => {
  if (changes.some(({ target }) => target.localName === "dialog" && !target.open))
    closedAt = performance.now();
}).observe(document, { subtree: true, attributeFilter: ["open"] });

/** Whether an input method takes the key, for instance to choose a character. */
export const composing = (event) => event.isComposing || event.keyCode === 229;

/** Whether the key belongs to a dialog that is open or has just closed. */
export const inDialog = () =>
  Boolean(document.querySelector("dialog[open]")) ||
  performance.now() - closedAt < REST_OF_DIALOG_MS;

/** Whether the key goes into a field. */
export const typing = (event) =>
  composing(event) || Boolean(event.target.closest?.("input, textarea, select, [contenteditable]"));
