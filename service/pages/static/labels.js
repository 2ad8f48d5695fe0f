// Completes names of labels wherever one is typed (`data-labels`). A box of several lines gets an
// input beside it, whose label is added as a line; `data-labels="new"` also takes labels that are in
// no list, once known ones much like them were shown.

import { element } from "./desk/answer.js";
import { ask } from "./desk/client.js";
import { composing } from "./keys.js";

const PAUSE_MS = 120;

/** Offer the labels that match what is typed in an input; returns what asks for them.
 *
 * `place`: Which input of the page it is. */
function complete(input, place) {
  const list = element("datalist", { id: `labels-of-${place}` });
  input.setAttribute("list", list.id);
  input.after(list);
  let timer = 0;
  const offer = async () => {
    const query = input.value.slice(0, 200);
    const reply = await ask(`/desk/labels?${new URLSearchParams({ query })}`).catch(() => null);
    const labels = (reply?.items ?? []).map(({ label }) => label);
    if (query === input.value.slice(0, 200))
      list.replaceChildren(...labels.map((value) => element("option", { value })));
    return labels;
  };
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(offer, PAUSE_MS);
  });
  input.addEventListener("focus", offer, { once: true });
  return offer;
}

/** Add labels to a box of lines by their names or parts of them. */
function collect(box, place) {
  const input = element("input", {
    type: "text",
    autocomplete: "off",
    "aria-label": "Add a label",
    placeholder: "Add a label: type, then Enter",
    dir: "auto",
  });
  const asked = element("p", { class: "hint", role: "status" });
  const takesNew = box.dataset.labels === "new";
  box.before(input, ...(takesNew ? [asked] : []));
  const offer = complete(input, place);
  const add = (label, typed) => {
    const lines = box.value.split("\n").filter((line) => line.trim());
    if (label && !lines.includes(label)) box.value = [...lines, label].join("\n");
    if (input.value.trim() === typed) input.value = ""; // else the next one is being typed
    asked.replaceChildren();
    input.focus();
  };

  /** Ask whether a label that is in no list is to be added, or a known one much like it. */
  const inquire = async (typed) => {
    const reply = await ask(`/desk/labels/new?${new URLSearchParams({ label: typed })}`);
    const known = reply.similar.map(({ label }) => choice(`Use “${label}”`, () => add(label, typed)));
    const fresh = choice("Add it as a new label", () => {
      add(reply.label, typed);
      const { form } = box;
      form.elements.add.checked = true;
      form.append(element("input", { type: "hidden", name: "seen", value: reply.label }));
    });
    const what = reply.retired ? "is retired; choose another label." : "is in no list.";
    // The focus stays in the input: a space of what is typed next must press no button.
    asked.replaceChildren(`“${reply.label}” ${what} `, ...known, ...(reply.retired ? [] : [fresh]));
  };
  input.addEventListener("keydown", async (event) => {
    if (event.key !== "Enter" || composing(event)) return;
    event.preventDefault();
    const typed = input.value.trim();
    const labels = typed ? await offer() : [];
    const label = labels.includes(typed) ? typed : labels[0];
    if (label === undefined && typed && takesNew)
      await inquire(typed).catch(() => add(typed, typed));
    else add(label ?? typed, typed);
  });
}

function choice(text, act) {
  const button = element("button", { type: "button", class: "second compact" }, text);
  button.addEventListener("click", act);
  return button;
}

for (const [place, field] of document.querySelectorAll("[data-labels]").entries())
  if (field.localName === "textarea") collect(field, place);
  else complete(field, place);
