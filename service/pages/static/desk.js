// The review desk. Reading should be the only thing that takes time: the next document is there
// before it is asked for, decisions are sent behind the reader's back, and nothing typed is lost.

import {
  Choice,
  cards,
  element,
  inLine,
  named,
  offers,
  percent,
  sharedLine,
  telling,
  termLines,
} from "./desk-answer.js";
import { Refused, ask, at } from "./desk-client.js";
import { drafts } from "./desk-keep.js";
import { Guide, Picker } from "./desk-picker.js";
import { Queue } from "./desk-queue.js";
import { composing, inDialog, typing } from "./keys.js";
import { Sheet, attached } from "./desk-text.js";

const LOOK_AGAIN_MS = 10_000;
const CHECK_AFTER_MS = 120;
const WARN_BELOW_S = 120;
const COUNT_AGAIN_MS = 60_000;
// A second press within this time was meant for the document that has just gone.
const SHOWN_AT_LEAST_MS = 250;
// A label is on the screen if this share of it is, above the bar with the buttons.
const WHOLE = 0.95;
const BAR_PX = 64;
const SINGLE_KEYS = "setwise-single-keys";
const KEYS = "setwise-keys";

const by = (id) => document.getElementById(id);
const ui = new Proxy({}, { get: (_, id) => by(id.replace(/[A-Z]/g, (c) => `-${c.toLowerCase()}`)) });

const { prioritized, ...wanted } = Object.fromEntries(
  [...new URLSearchParams(location.search)].filter(
    ([name, value]) => value && ["segment", "label", "prioritized"].includes(name),
  ),
);
const queue = new Queue({ ...wanted, prioritized: Boolean(prioritized) });
const sheet = new Sheet(ui.text);
let choice = null;
let shownAt = 0;
let done = 0;
let counted = 0;
let lookAgain = 0;
let checking = 0;
let check = null;
let explained = null;
let paused = false;
let busy = false;

const isChosen = (label) => Boolean(choice?.chosen.has(label));

/**
 * Add a label, with those that must be beside it, or remove it; `kind` tells what it is if the model
 * lacks it.
 */
function picked(label, kind) {
  const along = guide.beside(label).filter((one) => !isChosen(one.label));
  const added = choice.toggle(label, kind, along);
  const brought = added && along.length ? ` with ${inLine(along.map((one) => one.label))}` : "";
  const needing = choice.labels.filter((one) => guide.beside(one).some((above) => above.label === label));
  changed();
  const required = added || !needing.length ? "" : `, though required by ${inLine(needing)}`;
  say(`${named(label)} ${added ? "added" : "removed"}${brought}${required}.`);
}

/** Add a label that is in no list; `insist` tells that near-duplicates were seen and are not meant. */
function added(label, insist) {
  if (insist) choice.insist = true;
  if (!isChosen(label)) picked(label, "new");
}

const guide = new Guide({ line: ui.guideline, tree: ui.tree, picked, chosen: isChosen });
const picker = new Picker({
  input: ui.pick,
  list: ui.found,
  count: ui.foundCount,
  picked,
  added,
  chosen: isChosen,
  shown: (label) => guide.tell(label),
  failed: (error) => trouble(error),
});

// What has been on the screen: no key and no button submits a label that was not.
const seen = new Set();
const eyes = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) if (isIntersecting) seen.add(target.dataset.seen);
  },
  { threshold: WHOLE, rootMargin: `0px 0px -${BAR_PX}px` },
);

function watch(parts) {
  for (const part of parts.querySelectorAll("[data-seen]")) eyes.observe(part);
}

/** Whether all labels of a set have been on the screen; if not, bring the next ones there and ask. */
function inSight(set) {
  clearNotices("unseen");
  // A card says only what sets it apart; the other labels are chips, or stand above the cards.
  const parts = [ui.shared, ui.chips, set].flatMap((one) => [...one.querySelectorAll("[data-seen]")]);
  const hidden = parts.find((part) => !seen.has(part.dataset.seen));
  if (!hidden) return true;
  notice("unseen", "Labels of this set were out of sight. Read them, then submit again.");
  hidden.scrollIntoView({ block: "center" });
  return false;
}

function browse() {
  if (ui.browse.hidden)
    return notice("browse", "The labels have no parents, so there is no tree to browse. Press / to search.");
  guide.browse();
  return ui.treeDialog.showModal();
}

guide.load().then(
  (hierarchy) => (ui.browse.hidden = !hierarchy),
  () => {}, // Notes are a help; labels can be chosen without.
);

// Showing

function show(item) {
  clearTimeout(lookAgain);
  paused = false;
  const draft = drafts.of(item.id);
  choice = new Choice(item, draft);
  explained = null;
  ui.terms.hidden = true;
  ui.rest.hidden = true;
  ui.work.hidden = false;
  ui.work.dataset.task = item.id;
  ui.documentName.textContent = item.document.id ?? "Untitled document";
  ui.why.textContent = item.why ?? "";
  ui.why.hidden = !item.why;
  ui.urgency.textContent = item.urgency;
  ui.urgency.hidden = !item.urgency;
  ui.skips.hidden = !item.skips;
  ui.skips.replaceChildren(...(item.skips ?? []).map((text) => element("li", { dir: "auto" }, text)));
  showMetadata(item.document.metadata);
  sheet.show(item.document);
  ui.attachment.hidden = !item.document.attachment;
  ui.attachment.replaceChildren(...attached(item.document.attachment));
  ui.findText.value = "";
  ui.findCount.textContent = "";
  ui.comment.value = draft?.comment ?? "";
  fitComment();
  picker.clear();
  guide.tell(null);
  const sets = offers(item);
  ui.suggestions.hidden = !sets.length;
  ui.suggestionsTitle.textContent = titleOf(item, sets);
  ui.confidenceTerm.hidden = Boolean(item.answers);
  // Between two answers nothing is chosen yet; otherwise what Enter submits stands first.
  ui.chosen[item.answers ? "before" : "after"](ui.suggestions);
  seen.clear();
  eyes.disconnect();
  const line = sharedLine(item);
  ui.shared.replaceChildren(...line);
  ui.shared.hidden = !line.length;
  ui.cards.replaceChildren(...cards(item));
  watch(ui.suggestions);
  ui.withheld.textContent = item.withheld;
  ui.withheld.hidden = sets.length > 0;
  ui.restore.textContent = choice.first.length ? "Back to the suggestion" : "Start over";
  render();
  for (const kind of ["item", "empty", "unseen", "browse"]) clearNotices(kind);
  if (draft && draft.version !== item.version)
    notice("item", "You had this document before. Your earlier choice is restored.");
  showLease();
  shownAt = performance.now();
  window.scrollTo(0, 0);
  ui.text.focus({ preventScroll: true });
  say(spokenSummary(item, sets));
}

function titleOf(item, sets) {
  if (!item.answers) return "Most likely sets";
  return sets.length > 1 ? "Answers that differ" : "Answer so far";
}

function spokenSummary(item, sets) {
  const name = item.document.id ?? "A document";
  if (item.answers)
    return `${name}. ${titleOf(item, sets)}: ${item.answers.length}; your answer decides. ${ui.shared.textContent}`;
  if (!sets.length) return `${name}. Choose the labels that apply.`;
  const first = inLine(sets[0].labels);
  return `${name}. ${sets.length} sets; likeliest: ${first}, ${percent(sets[0].confidence)}.`;
}

function showMetadata(metadata) {
  const entries = Object.entries(metadata ?? {});
  ui.metadata.hidden = !entries.length;
  ui.metadata.replaceChildren(
    ...entries.map(([name, value]) =>
      element(
        "div",
        {},
        element("dt", { dir: "auto" }, name),
        element("dd", { dir: "auto" }, typeof value === "string" ? value : JSON.stringify(value)),
      ),
    ),
  );
}

function render() {
  const focused = document.activeElement?.closest?.("#chips button");
  const label = focused?.dataset.label;
  const kind = focused?.classList.contains("why") ? "why" : "chip";
  ui.chips.replaceChildren(...choice.chips(queue.current.candidates !== null));
  watch(ui.chips);
  if (label !== undefined)
    [...ui.chips.querySelectorAll(`.${kind}`)].find((one) => one.dataset.label === label)?.focus();
  ui.none.hidden = choice.labels.length > 0;
  ui.missing.setAttribute("aria-pressed", isChosen(""));
  ui.noneFits.setAttribute("aria-pressed", onlyMissing());
  ui.restore.hidden = !choice.changed;
  ui.submit.replaceChildren(
    choice.asked ? "Submit no labels " : "Submit ",
    element("kbd", {}, "⏎"),
  );
  warn();
}

/** Something was chosen or typed: keep it, and look whether it is odd. */
function changed() {
  choice.asked = false;
  clearNotices("empty");
  keep();
  render();
}

function keep() {
  const { id, version } = queue.current;
  drafts.keep(id, { version, ...choice.draft, comment: ui.comment.value });
}

function warn() {
  stopChecking();
  const item = queue.current;
  const labels = choice.labels;
  const known = (item.candidates ?? []).find(
    (one) => one.labels.length === labels.length && one.labels.every((l) => choice.chosen.has(l)),
  );
  if (known) return showWarnings(known.warnings);
  if (!labels.length && !choice.changed) return showWarnings([]);
  checking = setTimeout(async () => {
    try {
      check = new AbortController();
      const { signal } = check;
      const reply = await ask(`/desk/tasks/${item.id}/check`, { labels: labels.filter(Boolean) }, { signal });
      if (queue.current === item && choice.labels.join("\n") === labels.join("\n"))
        showWarnings(reply.warnings);
    } catch (error) {
      // A warning is a courtesy; a refusal is shown when the set is submitted.
      if (!(error instanceof Refused) && error.name !== "AbortError") state("offline");
    }
  }, CHECK_AFTER_MS);
  return undefined;
}

/** Ask no more about a set that is submitted or has changed. */
function stopChecking() {
  clearTimeout(checking);
  check?.abort();
}

function showWarnings(warnings) {
  ui.warnings.replaceChildren(
    ...warnings.map((text) =>
      element("li", {}, element("span", { "aria-hidden": "true" }, "⚠ "), text),
    ),
  );
}

// Deciding

/** Whether a decision would be meant for what is in hand now. */
function ready() {
  const item = queue.current;
  return item && !item.lost && !busy && performance.now() - shownAt > SHOWN_AT_LEAST_MS;
}

/** Submit the chosen set; that no label applies must be meant, not missed. */
function submitChosen() {
  if (!ready()) return;
  if (choice.labels.length || choice.asked) return submit(choice.draft, ui.chips);
  choice.asked = true;
  render();
  notice("empty", "No labels chosen. If none apply, submit again.");
}

/** Submit what a `Choice` keeps, or the labels of a card; the page shows them in `set`. */
function submit(answer, set) {
  if (!ready() || !inSight(set)) return;
  stopChecking();
  queue.decide(answer, ui.comment.value.trim() ? ui.comment.value : null);
  done += 1;
  showProgress();
  loadProgress();
  showUndo();
  go();
}

async function go() {
  busy = true;
  try {
    if (!queue.ready) ui.work.setAttribute("aria-busy", "true");
    const item = await queue.advance();
    if (item) show(item);
    else empty();
  } catch (error) {
    trouble(error, () => go());
  } finally {
    busy = false;
    ui.work.removeAttribute("aria-busy");
  }
}

/** Take back what was done last: a change of the labels in hand, else the last act. */
function undo() {
  if (!choice?.past.length) return undoAct();
  choice.undo();
  changed();
  return say(`Undone. Your set: ${inLine(choice.labels)}.`);
}

async function undoAct() {
  const [last] = queue.undoable;
  if (busy || !last) return;
  busy = true;
  try {
    const item = await queue.undo();
    if (last.kind === "submitted") done -= 1;
    showProgress();
    showUndo();
    show(item);
    say("Undone. " + (item.document.id ?? ""));
  } catch (error) {
    showUndo();
    trouble(error);
  } finally {
    busy = false;
  }
}

/** Part with the document in hand by `act`, and go on. */
async function leave(act) {
  if (!queue.current || busy) return;
  busy = true;
  stopChecking();
  try {
    await act();
    busy = false;
    showUndo();
    await go();
  } catch (error) {
    trouble(error, () => leave(act));
  } finally {
    busy = false;
  }
}

const skip = (reason) => leave(() => queue.skip(reason));
const later = () => leave(() => queue.postpone());

// Resting

function rest(title, text, button, act) {
  choice = null;
  ui.work.hidden = true;
  ui.lease.hidden = true;
  ui.rest.hidden = false;
  ui.restTitle.textContent = title;
  ui.restText.textContent = text;
  ui.resume.textContent = button;
  ui.resume.onclick = act;
  clearNotices("item");
  say(`${title}. ${text}`);
}

function empty() {
  const everything = Object.values(queue.wanted).every((one) => !one);
  rest(
    everything ? "No documents to review" : "No documents in this queue",
    "New documents appear here automatically. Documents that two reviewers have skipped wait " +
      "for a lead.",
    "Check now",
    go,
  );
  clearTimeout(lookAgain);
  lookAgain = setTimeout(() => (document.hidden ? empty() : go()), LOOK_AGAIN_MS);
}

async function pause() {
  if (busy || paused) return;
  paused = true;
  clearTimeout(lookAgain);
  rest(
    "Paused",
    "Your documents are back in the queue for others. Your choices and comments are kept in " +
      "this tab.",
    "Resume",
    () => go(),
  );
  ui.resume.focus();
  await queue.pause();
}

// Leases

function showLease() {
  const item = queue.current;
  ui.lease.hidden = !item;
  if (!item) return;
  const left = Math.max(0, Math.round(queue.left_s));
  const clock = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`;
  ui.leaseText.textContent = item.lost ? "Lease expired" : `Yours for ${clock}`;
  const short = left < Math.min(WARN_BELOW_S, item.lease / 4000);
  ui.lease.classList.toggle("short", short);
  if (left > 0 && short && !item.lost) {
    if (!has("lease"))
      notice("lease", "This document returns to the queue soon. Press any key to keep it.");
  } else {
    clearNotices("lease");
  }
}

function lost(how) {
  const words = {
    expired: "Your lease expired, so other reviewers can take this document.",
    taken: "Another reviewer has this document now.",
    submitted: "You submitted this document in another tab.",
    decided: "This document has already been submitted.",
  };
  const over = how === "submitted" || how === "decided";
  const kept = how === "submitted" ? "" : " Your choices and comment are kept in this tab.";
  clearNotices("lease");
  notice(
    "item",
    (words[how] ?? how) + kept,
    ...(over ? [] : [["Reclaim it", takeBack]]),
    ["Continue with the next", forget],
  );
  showLease();
}

async function takeBack() {
  const item = queue.current;
  if (!item) return;
  clearNotices("item");
  if (await queue.beat(item)) say("You have it again.");
  showLease();
}

function forget() {
  clearNotices("item");
  queue.forget();
  go();
}

// What the server or the network said

function state(now) {
  const words = {
    saving: "Saving…",
    saved: "All saved",
    offline: "No connection. Nothing is lost; retrying.",
  };
  ui.saved.textContent = words[now];
  ui.saved.dataset.state = now;
}

function trouble(error, again) {
  if (error.signedOut) return signedOut();
  if (error.name === "AbortError") return undefined;
  const actions = again ? [["Try again", again]] : [];
  notice("trouble", error instanceof Refused ? error.message : "The server is not responding.", ...actions);
  return undefined;
}

function signedOut() {
  clearNotices("session");
  const link = element("a", { href: at("/login?next=/desk"), class: "button compact" }, "Sign in again");
  notice("session", "You are signed out. Your work is kept in this tab.", link);
}

function notice(kind, text, ...actions) {
  clearNotices(kind);
  const line = element("div", { class: "note row", "data-kind": kind }, element("span", {}, text));
  for (const action of actions) {
    if (action instanceof Node) {
      line.append(action);
      continue;
    }
    const [name, act] = action;
    const button = element("button", { type: "button", class: "second compact" }, name);
    button.addEventListener("click", () => {
      line.remove();
      act();
    });
    line.append(button);
  }
  const close = element("button", { type: "button", class: "plain close", "aria-label": "Close" }, "×");
  close.addEventListener("click", () => line.remove());
  line.append(close);
  ui.notices.append(line);
}

const has = (kind) => Boolean(ui.notices.querySelector(`[data-kind=${kind}]`));

function clearNotices(kind) {
  for (const line of ui.notices.querySelectorAll(`[data-kind=${kind}]`)) line.remove();
}

function say(text) {
  ui.announce.textContent = text;
}

// Undo, progress

const DONE = {
  submitted: ({ decision }) => ["Submitted ", inLine(decision.labels)],
  skipped: ({ reason }) => ["Skipped ", reason],
  postponed: () => ["Postponed ", "it comes back after all that waits now; others may take it"],
};

/** Name the act that would be taken back next, and how many before it could be. */
function showUndo() {
  const [last, ...before] = queue.undoable;
  ui.undoBar.hidden = !last;
  if (!last) return;
  const [verb, what] = DONE[last.kind](last);
  const text = `${last.item.document.id ?? "Untitled document"}: ${what}`;
  const line = `${text}${before.length ? ` (and ${before.length} before)` : ""}`;
  if (ui.undoText.dataset.line !== verb + line)
    ui.undoText.replaceChildren(element("strong", {}, verb), line);
  ui.undoText.dataset.line = verb + line;
  const left = Math.ceil((last.until - Date.now()) / 1000);
  ui.undoLeft.textContent = Number.isFinite(left) ? `${left} s` : "";
}

function showProgress() {
  ui.progress.hidden = false;
  ui.progress.replaceChildren(element("strong", {}, String(done)), " submitted today");
}

/** Count again, but not while the person is idle: that would keep their session. */
async function loadProgress() {
  if (Date.now() - counted < COUNT_AGAIN_MS) return;
  const first = !counted;
  counted = Date.now();
  const midnight = new Date().setHours(0, 0, 0, 0);
  const within = ((Date.now() - midnight) / 1000).toFixed(0);
  try {
    const reply = await ask(`/desk/progress?within_s=${within}`);
    if (first) done += reply.done;
    ui.comments.hidden = !reply.comments;
    ui.comments.textContent = `New comments: ${reply.comments}`;
    showProgress();
  } catch {
    // It is nice to know, and no more.
  }
}

// Explaining

async function explain(label) {
  const item = queue.current;
  if (!item || item.candidates === null) return;
  if (explained === label) {
    explained = null;
    ui.terms.hidden = true;
    sheet.weigh([]);
    return;
  }
  try {
    const reply = await ask(`/desk/tasks/${item.id}/explain`, { labels: [label] });
    if (queue.current !== item) return;
    const terms = telling(reply.terms[0]);
    explained = label;
    ui.terms.replaceChildren(...termLines(label, terms));
    ui.terms.hidden = false;
    sheet.weigh(terms);
    say(ui.terms.textContent);
  } catch (error) {
    trouble(error);
  }
}

/** Explain the next label of the set, and after the last one nothing. */
function explainNext() {
  const every = choice.labels.length ? choice.labels : [...choice.order];
  const labels = every.filter((label) => choice.explainable(label));
  const next = labels[labels.indexOf(explained) + 1] ?? (explained === null ? labels[0] : explained);
  if (next !== undefined) explain(next);
}

// Hands

function fitComment() {
  ui.comment.rows = Math.min(6, ui.comment.value.split("\n").length);
}

function findStep(by) {
  const at = sheet.step(by);
  if (at) ui.findCount.textContent = `${at} of ${ui.findCount.dataset.total}`;
}

ui.cards.addEventListener("click", ({ target, detail }) => {
  const button = target.closest("button");
  if (!button || detail > 1) return; // the second half of a double click
  const { labels } = offers(queue.current)[button.dataset.place];
  if (button.classList.contains("accept")) submit({ labels: [...labels] }, button);
  else {
    choice.take(labels);
    changed();
  }
});

ui.chips.addEventListener("click", ({ target }) => {
  const button = target.closest("button");
  if (!button) return;
  if (button.classList.contains("all")) {
    choice.all = true;
    render();
    ui.chips.querySelector("li:last-child button")?.focus();
  } else if (button.classList.contains("why")) {
    explain(button.dataset.label);
  } else {
    picked(button.dataset.label);
  }
});

ui.chips.addEventListener("focusin", ({ target }) => guide.tell(target.dataset.label));
ui.browse.addEventListener("click", browse);
ui.missing.addEventListener("click", toggleMissing);
ui.noneFits.addEventListener("click", noneFits);

/** Say that a label applies which is in no list, besides those of the set, or take that back. */
function toggleMissing() {
  if (choice) picked("");
}

/** Empty the set: what applies is in no list. */
function noneFits() {
  if (!choice || onlyMissing()) return;
  choice.take([""]);
  changed();
  say("None of the known labels fits. Your set has only a label that is in no list.");
}

const onlyMissing = () => choice.labels.length === 1 && isChosen("");

ui.chips.addEventListener("keydown", (event) => {
  const { label } = event.target.closest(".chip")?.dataset ?? {};
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (step) {
    const all = [...ui.chips.querySelectorAll(".chip")];
    all.at((all.findIndex((one) => one === event.target) + step) % all.length)?.focus();
  } else if ((event.key === "Delete" || event.key === "Backspace") && choice.chosen.has(label)) {
    picked(label);
  } else return;
  event.preventDefault();
});

/** Go to the next label of the set, where Delete removes it. */
function toNextChosen() {
  const chosen = [...ui.chips.querySelectorAll(".chip[aria-pressed=true]")];
  const here = document.activeElement;
  const after = chosen.find((one) => here.compareDocumentPosition(one) & 4 && ui.chips.contains(here));
  (after ?? chosen[0])?.focus();
}

ui.comment.addEventListener("input", () => {
  fitComment();
  keep();
});
ui.submit.addEventListener("click", ({ detail }) => {
  if (detail <= 1) submitChosen();
});
ui.restore.addEventListener("click", () => {
  choice.take(choice.first);
  changed();
  ui.text.focus({ preventScroll: true });
});
ui.undo.addEventListener("click", undoAct);
ui.pause.addEventListener("click", pause);
ui.help.addEventListener("click", help);

ui.find.addEventListener("submit", (event) => {
  event.preventDefault();
  findStep(1);
});
ui.findBack.addEventListener("click", () => findStep(-1));
ui.findText.addEventListener("input", () => {
  const total = sheet.find(ui.findText.value);
  ui.findCount.dataset.total = total;
  ui.findCount.textContent = ui.findText.value.trim() ? `${total} found` : "";
  if (total) findStep(1);
});
ui.findText.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !event.shiftKey || composing(event)) return;
  event.preventDefault();
  findStep(-1);
});

ui.later.addEventListener("click", later);
ui.skip.addEventListener("click", openSkip);
ui.skipCancel.addEventListener("click", () => ui.skipDialog.close(""));
const reasons = [...ui.skipForm.querySelectorAll(".reason")];
for (const button of reasons)
  button.addEventListener("click", () => ui.skipDialog.close(button.value));
// Everything that is typed goes into the field, so that no part of a reason acts as a key.
ui.skipForm.addEventListener("submit", () => {
  const typed = ui.skipReason.value.trim();
  ui.skipOwn.value = reasons[Number(typed) - 1]?.value ?? typed;
});
ui.skipDialog.addEventListener("close", () => {
  const reason = ui.skipDialog.returnValue;
  if (reason) skip(reason);
});

function openSkip() {
  if (!queue.current) return;
  ui.skipReason.value = "";
  ui.skipDialog.returnValue = "";
  ui.skipDialog.showModal();
}

// What a person has set stays in their browser; without a store it holds until the page is left.
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

const acts = {
  add: () => ui.pick.focus(),
  find: () => ui.findText.focus(),
  remove: toNextChosen,
  comment: () => ui.comment.focus(),
  skip: openSkip,
  later,
  undo,
  pause,
  words: explainNext,
  browse,
  missing: toggleMissing,
  none: noneFits,
  help,
};
const anywhere = new Set(["help", "undo"]);
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

document.addEventListener("keydown", (event) => {
  if (event.repeat || event.altKey || composing(event) || inDialog()) return;
  if (event.ctrlKey || event.metaKey) {
    if (event.key === "Enter" && queue.current) submitChosen();
    return;
  }
  if (event.key === "Escape") {
    if (queue.current) ui.text.focus({ preventScroll: true });
    return;
  }
  if (typing(event) || !ui.keysOn.checked) return;
  const digit = /^(?:Digit|Numpad)([1-9])$/.exec(event.code)?.[1] ?? /^[1-9]$/.exec(event.key)?.[0];
  if (digit && queue.current) {
    const offer = offers(queue.current)[Number(digit) - 1];
    if (!offer) return;
    event.preventDefault();
    if (event.shiftKey) {
      choice.take(offer.labels);
      changed();
    } else submit({ labels: [...offer.labels] }, ui.cards.children[digit - 1]);
  } else if (event.key === "Enter" && queue.current) {
    if (event.target.closest("button, a, summary")) return;
    event.preventDefault();
    submitChosen();
  } else {
    const command = fields.find((one) => one.value === event.key)?.dataset.command;
    if (!command || !(queue.current || anywhere.has(command))) return;
    event.preventDefault();
    acts[command]();
  }
});

queue.addEventListener("state", ({ detail }) => state(detail.state));
queue.addEventListener("signed-out", signedOut);
queue.addEventListener("lost", ({ detail }) => lost(detail.how));
queue.addEventListener("failed", ({ detail: { decision, item, error } }) => {
  done -= 1;
  showProgress();
  showUndo();
  const what = `${decision.name ?? "Untitled document"}: ${inLine(decision.labels)}`;
  // The labels were refused, for instance because somebody has added a similar one meanwhile.
  const wrong = error.status === 422 || error.type.endsWith("/similar-labels");
  const again = item && wrong ? [["Open again", () => reopen(item)]] : [];
  notice("failed", `Not submitted: ${what}${decision.comment ? ` (${decision.comment})` : ""}. ${error.message}`, ...again);
});

function reopen(item) {
  queue.reopen(item);
  show(item);
}

window.addEventListener("pageshow", ({ persisted }) => {
  // Back from elsewhere: what stands here may not be ours any more.
  if (persisted && queue.current) queue.beat(queue.current).then(() => queue.prefetch());
});

setInterval(() => {
  queue.tick();
  showLease();
  showUndo();
}, 1000);

ui.desk.hidden = false;
state("saved");
loadProgress();
await queue.start();
await go();
