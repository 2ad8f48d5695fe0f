// Keys of the desk: what each does, a dialog to read and change them, and what a person has set,
// which stays in their browser.

import { ui } from "./notices.js";
import { composing, inDialog, typing } from "../keys.js";

const SINGLE_KEYS = "setwise-single-keys";
const KEYS = "setwise-keys";
// Commands that need no document.
const ANYWHERE = new Set(["help", "undo"]);

// Without a store, what is set holds until the page is left.
function kept(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

function keepSet(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // See above.
  }
}

ui.keysOn.checked = kept(SINGLE_KEYS) !== "off";
ui.keysOn.addEventListener("change", () => keepSet(SINGLE_KEYS, ui.keysOn.checked ? "on" : "off"));

const fields = [...ui.keysDialog.querySelectorAll("input[data-command]")];

function help() {
  changeKeys(false);
  ui.keysDialog.showModal();
}

/** Let the keys be changed, or only read: a key that is tried must change nothing. */
function changeKeys(changing) {
  for (const one of ui.keysDialog.querySelectorAll(".changing")) one.hidden = !changing;
  for (const one of ui.keysDialog.querySelectorAll(".reading")) one.hidden = changing;
}

/** Show the keys wherever one is named. */
function showKeys(own) {
  for (const field of fields) field.value = own[field.dataset.command] ?? field.defaultValue;
  for (const named of document.querySelectorAll("[data-key]")) {
    const { value } = fields.find((one) => one.dataset.command === named.dataset.key);
    const shown = named.localName === "kbd" ? named : named.querySelector("kbd");
    if (shown) shown.textContent = value;
    if (named !== shown) named.setAttribute("aria-keyshortcuts", value);
  }
}

let own = {};
try {
  own = JSON.parse(kept(KEYS)) ?? {};
} catch {
  // What is not ours is left out.
}
showKeys(own);
for (const field of fields) {
  field.addEventListener("focus", () => field.select());
  field.addEventListener("input", () => {
    const { command } = field.dataset;
    const before = own[command] ?? field.defaultValue;
    if (/^[^\s\d]$/u.test(field.value)) {
      // A key that another command has is exchanged with it.
      const other = fields.find((one) => one !== field && one.value === field.value);
      if (other) own[other.dataset.command] = before;
      own[command] = field.value;
      keepSet(KEYS, JSON.stringify(own));
    }
    if (field.value) showKeys(own);
  });
  field.addEventListener("blur", () => showKeys(own));
}
ui.keysChange.addEventListener("click", () => {
  changeKeys(true);
  fields[0].focus();
});
ui.keysReset.addEventListener("click", () => {
  own = {};
  keepSet(KEYS, "{}");
  showKeys(own);
});
ui.help.addEventListener("click", help);

/**
 * Do what keys say. `acts` are what commands do; `atWork` returns whether a document is in hand;
 * `submit` submits the set that is being made; `pick` takes a suggested one by its number, or a copy
 * of it, and returns whether there is one; `leave` leaves a field.
 */
export function listen({ acts, atWork, submit, pick, leave }) {
  document.addEventListener("keydown", (event) => {
    if (event.repeat || event.altKey || composing(event) || inDialog()) return;
    if (event.ctrlKey || event.metaKey) {
      if (event.key === "Enter" && atWork()) submit();
      return;
    }
    if (event.key === "Escape") {
      if (atWork()) leave();
      return;
    }
    if (typing(event) || !ui.keysOn.checked) return;
    const digit = /^(?:Digit|Numpad)([1-9])$/.exec(event.code)?.[1] ?? /^[1-9]$/.exec(event.key)?.[0];
    if (digit && atWork()) {
      if (pick(Number(digit), event.shiftKey)) event.preventDefault();
    } else if (event.key === "Enter" && atWork()) {
      if (event.target.closest("button, a, summary")) return;
      event.preventDefault();
      submit();
    } else {
      const command = fields.find((one) => one.value === event.key)?.dataset.command;
      if (!command || !(atWork() || ANYWHERE.has(command))) return;
      event.preventDefault();
      ({ ...acts, help })[command]();
    }
  });
}
