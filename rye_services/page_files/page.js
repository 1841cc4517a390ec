// What a page gains where scripts run: lists that stay current, and times of the reader's zone.
// Everything is there without it. Parts come from this node, escaped like the page they are in.
"use strict";

const EVERY_MS = 2000;
const SLOWEST_MS = 30000;

function showLocalTimes(root) {
  const form = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
  for (const time of root.querySelectorAll("time[datetime]")) {
    const moment = new Date(time.dateTime);
    if (Number.isNaN(moment.getTime())) continue;
    time.title = time.textContent;
    time.textContent = form.format(moment);
  }
}

async function partAt(address) {
  const answer = await fetch(address, { credentials: "same-origin", redirect: "error" });
  if (answer.status === 401) {
    location.reload();
    return null;
  }
  if (!answer.ok) throw new Error(`${address}: ${answer.status}`);
  return new DOMParser().parseFromString(await answer.text(), "text/html").body.firstElementChild;
}

// A part is replaced only where it says something new, and never while something in it has the
// focus: whoever reads it with the keyboard keeps their place.
function keepCurrent(part) {
  const address = part.dataset.live;
  let shown = null;
  let wait = EVERY_MS;
  const look = async () => {
    if (!document.hidden) {
      try {
        const fresh = await partAt(address);
        if (fresh === null) return;
        wait = EVERY_MS;
        if (fresh.innerHTML !== shown && !part.contains(document.activeElement)) {
          shown = fresh.innerHTML;
          showLocalTimes(fresh);
          part.replaceWith(fresh);
          part = fresh;
        }
      } catch {
        wait = Math.min(2 * wait, SLOWEST_MS);
      }
    }
    setTimeout(look, wait);
  };
  setTimeout(look, wait);
}

showLocalTimes(document);
for (const part of document.querySelectorAll("[data-live]")) keepCurrent(part);
