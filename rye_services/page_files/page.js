// What pages gain where scripts run: times of the reader's zone, copy buttons, and care for who reads
// while a part is replaced (htmx replaces it). Everything is there without it.
"use strict";

function showLocalTimes(root) {
  const form = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
  for (const time of root.querySelectorAll("time[datetime]:not([title])")) {
    const moment = new Date(time.dateTime);
    if (Number.isNaN(moment.getTime())) continue;
    time.title = time.textContent;
    time.textContent = form.format(moment);
  }
}

async function copy(button) {
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "Copied";
  } catch {  // no clipboard for pages without TLS: the line is selected instead
    getSelection().selectAllChildren(button.parentElement.querySelector("code"));
    button.textContent = "Selected";
  }
}

function offerCopies(root) {
  for (const button of root.querySelectorAll("button[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", () => copy(button));
  }
}

// Who has scrolled back in a log reads there: it is followed at its end only.
function isReadBack(log) {
  return log !== null && log.scrollTop + log.clientHeight < log.scrollHeight - 4;
}

function begin(root) {
  for (const log of root.querySelectorAll("pre.log")) log.scrollTop = log.scrollHeight;
  showLocalTimes(root);
  offerCopies(root);
}

// A part is asked for only while the page is seen, and replaced only where it says something new and
// nothing in it has the focus: who reads it with the keyboard keeps their place.
const shown = new Map();

document.addEventListener("htmx:beforeRequest", (event) => {
  if (document.hidden) event.preventDefault();
});

document.addEventListener("htmx:beforeSwap", (event) => {
  const { xhr, target } = event.detail;
  if (xhr.status === 401) location.reload();
  const isNew = shown.get(target.id) !== xhr.responseText;
  const isRead = target.contains(document.activeElement) || isReadBack(target.querySelector("pre.log"));
  if (!isNew || isRead) event.detail.shouldSwap = false;
  else shown.set(target.id, xhr.responseText);
});

document.addEventListener("htmx:load", (event) => begin(event.detail.elt));

begin(document);
