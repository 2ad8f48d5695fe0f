// The tasks of this tab: the one in hand, the next one that is fetched while it is read, and the
// decisions on their way. Emits `state`, `lost`, `failed`, `sent` and `signed-out`.

import { Refused, Unreached, ask, insist } from "./client.js";
import { drafts, left, unsent } from "./keep.js";

const BEAT_EVERY_MS = 60_000;
const ANSWER_OF_TABS_MS = 60;
const LATE_RELEASE_MS = 5_000;
const FETCH_AGAIN_MS = 1_000;
const MOST_UNDOABLE = 5; // the server makes older decisions final; skips keep to the same number

const LOST_AS = { "lease-lost": "taken", "review-already-decided": "decided" };

const now = () => Date.now();

/** Date a lease from when it was asked for: the answer may wait while the machine sleeps. */
function lasting(item, sent) {
  const lease = 1000 * item.expires_in_s;
  return Object.assign(item, { lease, deadline: sent + lease, beatAt: sent });
}

/** What the server is sent of a decision. */
function body({ version, labels, beyond = {}, insist = false, comment }) {
  const new_labels = labels.filter((label) => beyond[label] === "new");
  const label_missing = labels.includes("");
  return { version, comment, labels: labels.filter(Boolean), new_labels, insist, label_missing };
}

export class Queue extends EventTarget {
  #ahead = [];
  #fetching = null;
  #pumping = null;
  #sending = null;
  #elsewhere = new Map();
  #tab = crypto.randomUUID?.() ?? String(Math.random());
  #tabs = "BroadcastChannel" in window ? new BroadcastChannel("setwise-desk") : null;
  #given = left.all();
  #activeAt = now();

  /** `wanted` names the queue: `{segment, label, prioritized}`. */
  constructor(wanted) {
    super();
    this.wanted = wanted;
    this.current = null;
    this.made = []; // the acts that may be taken back, newest last: {kind, item, until, draft, …}
    this.#tabs?.addEventListener("message", ({ data }) => this.#hear(data));
    left.put([]);
    setTimeout(() => (this.#given = []), LATE_RELEASE_MS);
    for (const kind of ["pointerdown", "keydown", "wheel"])
      window.addEventListener(kind, () => (this.#activeAt = now()), { passive: true });
    window.addEventListener("pagehide", () => this.#leave());
    window.addEventListener("beforeunload", (event) => {
      if (unsent.all().length) event.preventDefault();
    });
  }

  async start() {
    this.#tabs?.postMessage({ tab: this.#tab, hello: true });
    if (this.#tabs) await new Promise((resolve) => setTimeout(resolve, ANSWER_OF_TABS_MS));
    this.#pump();
  }

  /** Take the next task in hand; null when there is none. */
  async advance() {
    this.current = null;
    do this.#ahead = this.#ahead.filter((one) => one.deadline > now());
    while (!this.#ahead.length && (await this.#fetched()));
    this.current = this.#ahead.shift() ?? null;
    this.#tell();
    if (this.current) this.prefetch();
    return this.current;
  }

  /** Whether `advance` has the next task without asking. */
  get ready() {
    return this.#ahead.some((one) => one.deadline > now());
  }

  async prefetch() {
    if (this.ready) return;
    try {
      await this.#fetch();
    } catch (error) {
      // It is asked for again when it is needed, and refused then if need be.
      if (error instanceof Refused && error.signedOut) this.#emit("signed-out");
    }
  }

  /** Fetch a task, however long the network is away; false when there is none. */
  async #fetched() {
    for (;;) {
      try {
        const found = await this.#fetch();
        this.#emit("state", { state: unsent.all().length ? "saving" : "saved" });
        return found;
      } catch (error) {
        if (!(error instanceof Unreached)) throw error;
        this.#emit("state", { state: "offline" });
        await new Promise((resolve) => setTimeout(resolve, FETCH_AGAIN_MS));
      }
    }
  }

  /** Fetch one more task; concurrent callers share the request. */
  #fetch() {
    this.#fetching ??= this.#claim().finally(() => (this.#fetching = null));
    return this.#fetching;
  }

  async #claim() {
    const having = [...this.#ids(), ...[...this.#elsewhere.values()].flat(), ...this.#given];
    const sent = now();
    const reply = await ask("/desk/next", { ...this.wanted, having: having.slice(0, 100) });
    if (reply === null || this.#ids().includes(reply.id)) return false;
    this.#ahead.push(lasting(reply, sent));
    this.#tell();
    return true;
  }

  #ids() {
    return [
      ...(this.current ? [this.current.id] : []),
      ...this.#ahead.map((one) => one.id),
      ...unsent.all().map((one) => one.id),
    ];
  }

  /**
   * Decide the task in hand: `answer` is what a `Choice` keeps. It is sent in the background;
   * `advance` may follow at once.
   */
  decide(answer, comment) {
    const { id, version, document } = this.current;
    const decision = { id, version, ...answer, comment, name: document.id };
    drafts.keep(id, { version, ...answer, comment: comment ?? "" });
    unsent.add(decision);
    this.#did({ kind: "submitted", decision, until: Infinity });
    this.#tabs?.postMessage({ tab: this.#tab, submitted: id });
    this.#pump();
  }

  #pump() {
    this.#pumping ??= this.#sendAll().finally(() => (this.#pumping = null));
    return this.#pumping;
  }

  async #sendAll() {
    for (let next = unsent.all()[0]; next; next = unsent.all()[0]) {
      this.#sending = next.id;
      this.#emit("state", { state: "saving" });
      const { id } = next;
      try {
        const reply = await insist(
          `/desk/tasks/${id}/decide`,
          body(next),
          (waiting) => this.#emit("state", { state: waiting ? "offline" : "saving" }),
        );
        unsent.drop(id);
        drafts.drop(id);
        const made = this.#made(id);
        if (made) made.until = now() + 1000 * reply.undo_s;
        this.#emit("sent", { decision: next });
      } catch (error) {
        if (error.signedOut) {
          this.#emit("signed-out");
          return;
        }
        unsent.drop(id);
        const item = this.#made(id)?.item ?? null;
        this.#forgetAct(id);
        this.#emit("failed", { decision: next, item, error });
      } finally {
        this.#sending = null;
      }
    }
    this.#emit("state", { state: "saved" });
  }

  /** Part with the task in hand by an act that may be taken back. */
  #did(act) {
    const item = this.current;
    this.made = [...this.made, { ...act, item, draft: drafts.of(item.id) }].slice(-MOST_UNDOABLE);
    this.current = null;
  }

  #made(id) {
    return this.made.find((one) => one.decision?.id === id);
  }

  /** The acts that may be taken back, newest first. */
  get undoable() {
    return this.made.filter((one) => one.until > now()).reverse();
  }

  /** Take the last act back; returns its task, in hand again, with what was chosen. */
  async undo() {
    const { kind, item, draft } = this.undoable[0];
    const { id } = item;
    let again = item;
    if (this.#sending !== id && unsent.all().some((one) => one.id === id)) {
      unsent.drop(id); // the server never heard of it
    } else {
      await this.#pumping;
      again = await this.#takenBack(item, kind).catch((error) => {
        if (error instanceof Refused) this.#forgetAct(id); // it is final now
        throw error;
      });
    }
    this.#forgetAct(id);
    if (this.current) this.#ahead.unshift(this.current);
    this.current = again;
    if (draft) drafts.keep(id, { ...draft, version: again.version });
    this.#tell();
    return again;
  }

  async #takenBack(item, kind) {
    const sent = now();
    if (kind !== "postponed") return lasting(await ask(`/desk/tasks/${item.id}/undo`, {}), sent);
    const reply = await ask(`/desk/tasks/${item.id}/take-back`, {});
    return lasting(Object.assign(item, reply, { lost: false }), sent);
  }

  #forgetAct(id) {
    this.made = this.made.filter((one) => one.item.id !== id);
  }

  /** Lay a task in hand again, for instance because its decision was refused. */
  reopen(item) {
    if (this.current) this.#ahead.unshift(this.current);
    this.current = item;
    this.#tell();
  }

  async skip(reason) {
    const { id } = this.current;
    const reply = await ask(`/desk/tasks/${id}/skip`, { reason });
    this.#did({ kind: "skipped", reason, until: now() + 1000 * reply.undo_s });
    drafts.drop(id);
  }

  /** Give the task in hand back, behind all that waits now; its draft stays. */
  async postpone() {
    const reply = await ask(`/desk/tasks/${this.current.id}/release`, { later: true });
    this.#did({ kind: "postponed", until: now() + 1000 * reply.undo_s });
  }

  /** Give everything back; drafts stay. */
  async pause() {
    await this.#fetching?.catch(() => {});
    const held = [...(this.current ? [this.current] : []), ...this.#ahead];
    this.current = null;
    this.#ahead = [];
    this.#tell();
    await Promise.allSettled(held.map((one) => ask(`/desk/tasks/${one.id}/release`, {})));
  }

  forget() {
    this.current = null;
    this.#tell();
  }

  get left_s() {
    return this.current ? (this.current.deadline - now()) / 1000 : 0;
  }

  /** Keep the leases of tasks in use; called every second. */
  async tick() {
    for (const item of [this.current, ...this.#ahead]) {
      if (!item || item.lost) continue;
      const alive = this.#activeAt > item.beatAt;
      const due = now() - item.beatAt > Math.min(BEAT_EVERY_MS, item.lease / 3);
      if (alive && due) await this.beat(item);
      else if (item.deadline <= now()) this.#lose(item, "expired");
    }
  }

  /** Extend a lease, or reclaim the task if no one took it. True when it is ours. */
  async beat(item) {
    const sent = now();
    const call = item.lost || item.deadline <= sent ? "take-back" : "heartbeat";
    item.beatAt = sent;
    try {
      const reply = await ask(`/desk/tasks/${item.id}/${call}`, {});
      lasting(Object.assign(item, reply, { lost: false }), sent);
      return true;
    } catch (error) {
      if (error instanceof Unreached) {
        this.#emit("state", { state: "offline" });
        if (item.lost) this.#lose(item, "expired"); // it was tried to take it back, and may be again
      } else if (error.signedOut) this.#emit("signed-out");
      else this.#lose(item, LOST_AS[error.type.split("/").at(-1)] ?? error.message);
      return false;
    }
  }

  #lose(item, how) {
    item.lost = true;
    this.#ahead = this.#ahead.filter((one) => one !== item);
    if (item === this.current) this.#emit("lost", { how });
  }

  #leave() {
    if (this.#ahead.length) {
      left.put(this.#ahead.map((one) => one.id));
      for (const one of this.#ahead)
        ask(`/desk/tasks/${one.id}/release`, {}, { keepalive: true }).catch(() => {});
      this.#ahead = [];
    }
    this.#tabs?.postMessage({ tab: this.#tab, have: [] });
  }

  #tell() {
    this.#tabs?.postMessage({ tab: this.#tab, have: this.#ids() });
  }

  #hear({ tab, hello, have, submitted }) {
    if (hello) this.#tell();
    if (have) this.#elsewhere.set(tab, have);
    if (submitted) {
      this.#ahead = this.#ahead.filter((one) => one.id !== submitted);
      if (this.current?.id === submitted) {
        this.current.lost = true;
        this.#emit("lost", { how: "submitted" });
      }
    }
  }

  #emit(type, detail = {}) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}
