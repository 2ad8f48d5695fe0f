// What this tab keeps through a reload, a sign-in or a lost lease: drafts by task, and decisions
// that the server has not confirmed yet. It ends with the tab, so nothing stays on a shared machine.

const DRAFT = "setwise-draft-";
const UNSENT = "setwise-unsent";
const LEFT = "setwise-left";
const memory = new Map(); // where the browser allows no storage

function read(name) {
  try {
    return JSON.parse(sessionStorage.getItem(name)) ?? memory.get(name);
  } catch {
    return memory.get(name);
  }
}

function write(name, value) {
  try {
    if (value === undefined) sessionStorage.removeItem(name);
    else sessionStorage.setItem(name, JSON.stringify(value));
    memory.delete(name);
  } catch {
    if (value === undefined) memory.delete(name);
    else memory.set(name, value);
  }
}

/** A draft is `{version, labels, beyond, insist, comment}`; see `Choice`. */
export const drafts = {
  of: (id) => read(DRAFT + id),
  keep: (id, draft) => write(DRAFT + id, draft),
  drop: (id) => write(DRAFT + id),
};

/** A decision is a draft with `id` and `name`; first made, first sent. */
export const unsent = {
  all: () => read(UNSENT) ?? [],
  add: (decision) => write(UNSENT, [...unsent.all(), decision]),
  drop(id) {
    const rest = unsent.all().filter((one) => one.id !== id);
    write(UNSENT, rest.length ? rest : undefined);
  },
};

/** Tasks that were given back when the page was left; the server may not know it yet. */
export const left = {
  all: () => read(LEFT) ?? [],
  put: (ids) => write(LEFT, ids.length ? ids : undefined),
};
