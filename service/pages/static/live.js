// Keeps what is marked with `data-live` fresh, by asking for its page or its `data-source` again,
// until it says that nothing more will happen. `data-live="60"` asks once a minute. A hidden page asks for nothing.
// Without this script the page is reloaded by hand.

const PAUSE_S = 1.5;

async function refresh(part) {
  const answer = await fetch(part.dataset.source ?? location.href, { headers: { Accept: "text/html" } });
  // Wait for a busy server; stop once the session may no longer see the page.
  if (answer.status === 429 || answer.status >= 500) return part;
  if (!answer.ok) return null;
  const made = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = made.getElementById(part.id);
  if (!fresh) return null;
  // A section that is unfolded stays so. Do not replace a part that has the focus, or in which the reader has opened or typed something.
  for (const { id } of part.querySelectorAll("details[id][open]")) fresh.querySelector(`#${CSS.escape(id)}`)?.setAttribute("open", "");
  const open = (of) => of.querySelectorAll("details[open]").length;
  if ("touched" in part.dataset || part.contains(document.activeElement) || open(part) > open(fresh)) return part;
  for (const box of part.querySelectorAll("input:checked")) {
    const again = fresh.querySelector(`[name="${box.name}"][value="${CSS.escape(box.value)}"]`);
    if (again) again.checked = true;
  }
  part.replaceWith(fresh);
  const footer = made.querySelector("body > footer"); // says as of when
  if (footer) document.querySelector("body > footer").replaceWith(footer);
  document.dispatchEvent(new Event("refreshed"));
  return fresh;
}

async function follow(part) {
  while (part && "live" in part.dataset) {
    await new Promise((resolve) => setTimeout(resolve, 1000 * (part.dataset.live || PAUSE_S)));
    if (document.hidden) continue;
    try {
      part = await refresh(part);
    } catch {
      // The network is away; the page says as much as it knew.
    }
  }
}

// Boxes that are ticked outlive a refresh; what is typed or tried would not.
document.addEventListener("input", ({ target }) => {
  if (target.type !== "checkbox") target.closest("[data-live]")?.setAttribute("data-touched", "");
});
document.querySelectorAll("[data-live]").forEach(follow);
