// Forms of all pages: nothing is sent twice, and what was typed outlives what comes in between.
// A form that is sent is kept until a page for a signed-in user answers. If the sign-in page
// comes instead, or the network is lost, it is filled in again afterwards.

const SENT = "setwise-form";
// After this time a form that got no answer may be sent again.
const AGAIN_MS = 10_000;

function stored() {
  try {
    return JSON.parse(sessionStorage.getItem(SENT));
  } catch {
    return null;
  }
}

function store(form) {
  try {
    if (form) sessionStorage.setItem(SENT, JSON.stringify(form));
    else sessionStorage.removeItem(SENT);
  } catch {
    // Then nothing outlives the page.
  }
}

// Where the row of places is wider than the screen, also once a phone is turned, the present one
// comes into sight.
const places = document.querySelector("nav.places");
const present = places?.querySelector("[aria-current]");
if (present)
  new ResizeObserver(() => {
    const [row, place] = [places, present].map((one) => one.getBoundingClientRect());
    places.scrollLeft += place.left - row.left - (row.width - place.width) / 2;
  }).observe(places);

const actionOf = (form) => new URL(form.action).pathname;
const typed = (form) =>
  [...form.elements].filter(
    (one) => one.name && !["hidden", "password", "submit", "button", "file"].includes(one.type),
  );
const ticks = (one) => one.type === "checkbox" || one.type === "radio";

function contents(form) {
  return typed(form)
    .filter((one) => !ticks(one) || one.checked)
    .map((one) => [one.name, one.value]);
}

function fill(form, values) {
  const rest = [...values];
  for (const one of typed(form)) {
    const place = rest.findIndex(
      ([name, value]) => name === one.name && (!ticks(one) || value === one.value),
    );
    if (ticks(one)) one.checked = place >= 0;
    else if (place >= 0) one.value = rest[place][1];
    if (place < 0) continue;
    rest.splice(place, 1);
    for (let at = one.closest("details"); at; at = at.parentElement.closest("details")) at.open = true;
  }
  const note = document.createElement("p");
  note.className = "note";
  note.setAttribute("role", "status");
  note.textContent = "This form was not saved. Your entries are restored.";
  form.prepend(note);
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  // After a file the page is still there.
  if (form.method !== "post" || event.submitter?.matches("[data-file]")) return;
  if ("sent" in form.dataset) {
    event.preventDefault();
    return;
  }
  form.dataset.sent = "";
  setTimeout(() => delete form.dataset.sent, AGAIN_MS);
  if (form.matches(".sheet"))
    store({ page: location.pathname, action: actionOf(form), values: contents(form) });
});

// The box of a list ticks the boxes of its rows.
document.addEventListener("change", ({ target }) => {
  const all = target.form?.elements.namedItem("all");
  const rows = [...(target.form?.elements ?? [])].filter((one) => one.name === "id");
  if (target === all) for (const one of rows) one.checked = all.checked;
  else if (all && target.name === "id") all.checked = rows.every((one) => one.checked);
});

// What can be done to a row opens in sight, and closes as a menu does.
const menus = () => document.querySelectorAll(".menu[open]");
document.addEventListener(
  "toggle",
  ({ target }) => {
    if (target.matches(".menu[open]")) target.lastElementChild.scrollIntoView({ block: "nearest" });
  },
  true, // the event does not bubble
);
document.addEventListener("click", ({ target }) => {
  for (const menu of menus()) if (!menu.contains(target)) menu.open = false;
});
document.addEventListener("keydown", ({ key }) => {
  if (key !== "Escape") return;
  for (const menu of menus()) {
    menu.open = false;
    menu.firstElementChild.focus();
  }
});

addEventListener("pageshow", () => {
  for (const form of document.forms) delete form.dataset.sent;
});

function arrive() {
  const sent = stored();
  if (!sent) return;
  // Pages without a session, such as the sign-in page, are no answer to the form.
  if (!document.querySelector("meta[name=csrf-token]")) {
    store({ ...sent, away: true });
    const back = document.querySelector("form.door input[name=back]");
    if (back?.value === "/") back.value = sent.page;
    return;
  }
  const form = [...document.forms].find((one) => actionOf(one) === sent.action);
  const answered = answers(sent);
  if (form && !answered) fill(form, sent.values);
  if (form || answered) store(null);
}

/** Whether this page is what came of the form: whatever did came from the form's own page. */
function answers(sent) {
  const [navigation] = performance.getEntriesByType("navigation");
  if (sent.away || navigation?.type === "back_forward" || !document.referrer) return false;
  return new URL(document.referrer).pathname === sent.page;
}

arrive();
