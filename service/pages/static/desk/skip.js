// The dialog that asks why a document is skipped.

import { ui } from "./notices.js";

const reasons = [...ui.skipForm.querySelectorAll(".reason")];

export function askWhy() {
  ui.skipReason.value = "";
  ui.skipDialog.returnValue = "";
  ui.skipDialog.showModal();
}

/** Have `skip` called with each reason that is given. */
export function onReason(skip) {
  ui.skipDialog.addEventListener("close", () => {
    const reason = ui.skipDialog.returnValue;
    if (reason) skip(reason);
  });
}

ui.skipCancel.addEventListener("click", () => ui.skipDialog.close(""));
for (const button of reasons)
  button.addEventListener("click", () => ui.skipDialog.close(button.value));
// Everything that is typed goes into the field, so that no part of a reason acts as a key.
ui.skipForm.addEventListener("submit", () => {
  const typed = ui.skipReason.value.trim();
  ui.skipOwn.value = reasons[Number(typed) - 1]?.value ?? typed;
});
