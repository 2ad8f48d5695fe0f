// What the desk asks of the server, as the signed-in user. A lost network is waited out; asking
// again is safe, because the server takes the same decision on the same version only once.

const TOKEN = "meta[name=csrf-token]";
const LONGEST_PAUSE_MS = 8000;

/** The address of a path of this service, which may itself be below a path. */
export const at = (path) => new URL(`../..${path}`, import.meta.url).href;

/** The server understood and said no. */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail ?? problem.title ?? `The server responded with status ${status}.`);
    this.status = status;
    this.type = problem.type ?? "";
  }

  get signedOut() {
    return this.status === 401;
  }
}

/** Nothing came back, or nothing of use: it may be tried again. */
export class Unreached extends Error {}

function token() {
  return document.querySelector(TOKEN).content;
}

/** After a new sign-in in another tab, this page's token is an old one; fetch the present one. */
async function renewToken() {
  const answer = await fetch(at("/desk"), { headers: { Accept: "text/html" } });
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.querySelector(TOKEN)?.content;
  const renewed = Boolean(fresh) && fresh !== token();
  if (renewed) document.querySelector(TOKEN).content = fresh;
  return renewed;
}

async function once(path, body, { signal, keepalive = false } = {}) {
  const headers = { Accept: "application/json" };
  if (body !== undefined) {
    headers["Content-Type"] = "application/json";
    headers["X-CSRF-Token"] = token();
  }
  let answer;
  try {
    answer = await fetch(at(path), {
      method: body === undefined ? "GET" : "POST",
      body: body === undefined ? undefined : JSON.stringify(body),
      headers,
      signal,
      keepalive,
    });
    if (answer.status === 204) return null;
    const reply = await answer.json();
    if (answer.ok) return reply;
    if (answer.status < 500 && answer.status !== 429) throw new Refused(answer.status, reply);
  } catch (error) {
    if (error instanceof Refused || error.name === "AbortError") throw error;
    throw new Unreached(error.message);
  }
  throw new Unreached(`The server responded with status ${answer.status}.`);
}

/** Ask once. Raises Refused or Unreached. */
export async function ask(path, body, options) {
  try {
    return await once(path, body, options);
  } catch (error) {
    const old = error instanceof Refused && error.type.endsWith("/forged-request");
    if (old && (await renewToken())) return once(path, body, options);
    throw error;
  }
}

/** Ask until there is an answer; `waiting(true)` tells that the network is not there. */
export async function insist(path, body, waiting = () => {}) {
  for (let pause = 400; ; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
    try {
      const reply = await ask(path, body);
      waiting(false);
      return reply;
    } catch (error) {
      if (!(error instanceof Unreached)) throw error;
      waiting(true);
      await rested(pause);
    }
  }
}

/** Wait, but no longer than until the browser says that the network is back. */
function rested(ms) {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      window.removeEventListener("online", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    window.addEventListener("online", done);
  });
}
