// What the desk says beside the document: notices to act on, how far work is saved, and words that
// only screen readers hear.

import { element } from "./answer.js";
import { Refused, at } from "./client.js";

const by = (id) => document.getElementById(id);

/** The parts of the page by their ids, in camel case. */
export const ui = new Proxy(
  {},
  { get: (_, id) => by(id.replace(/[A-Z]/g, (c) => `-${c.toLowerCase()}`)) },
);

export function state(now) {
  const words = {
    saving: "Saving…",
    saved: "All saved",
    offline: "No connection. Nothing is lost; retrying.",
  };
  ui.saved.textContent = words[now];
  ui.saved.dataset.state = now;
}

export function trouble(error, again) {
  if (error.signedOut) return signedOut();
  if (error.name === "AbortError") return undefined;
  const actions = again ? [["Try again", again]] : [];
  notice("trouble", error instanceof Refused ? error.message : "The server is not responding.", ...actions);
  return undefined;
}

export function signedOut() {
  clearNotices("session");
  const link = element("a", { href: at("/login?next=/desk"), class: "button compact" }, "Sign in again");
  notice("session", "You are signed out. Your work is kept in this tab.", link);
}

export function notice(kind, text, ...actions) {
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

export const has = (kind) => Boolean(ui.notices.querySelector(`[data-kind=${kind}]`));

export function clearNotices(kind) {
  for (const line of ui.notices.querySelectorAll(`[data-kind=${kind}]`)) line.remove();
}

export function say(text) {
  ui.announce.textContent = text;
}
