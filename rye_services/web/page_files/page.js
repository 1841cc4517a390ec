// What pages gain where scripts run: times of the reader's zone, copy buttons, and care for who reads
// while a part is replaced (htmx replaces it). Everything is there without it.
"use strict";

const units = [["year", 31536000], ["month", 2592000], ["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
const since = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });

function relative(at) {
  const seconds = (at.getTime() - Date.now()) / 1000;
  const [unit, length] = units.find(([, size]) => Math.abs(seconds) >= size) ?? ["second", 1];
  return since.format(Math.round(seconds / length), unit);
}

// A time is said from now on, in the words of the reader's language; its title is the time itself.
function showLocalTimes(root) {
  const form = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
  for (const time of root.querySelectorAll("time[datetime]")) {
    const local = new Date(time.dateTime);
    if (Number.isNaN(local.getTime())) continue;
    if (!time.title) time.title = form.format(local);
    time.textContent = relative(local);
  }
}

setInterval(() => showLocalTimes(document), 30000);

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

// A request to a route of this node, with the key that was typed: what a program would send.
async function send(event) {
  event.preventDefault();
  const form = event.target, shown = form.querySelector("pre"), query = new URLSearchParams();
  let path = form.dataset.path;
  for (const field of form.querySelectorAll("input[data-in]")) {
    if (field.dataset.in === "path") path = path.replace(`{${field.name}}`, encodeURIComponent(field.value));
    else if (field.value !== "") query.set(field.name, field.value);
  }
  const headers = { Accept: "application/json" }, body = form.elements.body?.value;
  if (form.elements.key.value) headers.Authorization = `Bearer ${form.elements.key.value}`;
  if (body) headers["Content-Type"] = "application/json";
  const address = query.size ? `${path}?${query}` : path;
  shown.hidden = false;
  shown.textContent = "...";
  try {
    const answer = await fetch(address, { method: form.dataset.try, headers, body: body || undefined, credentials: "omit" });
    const text = await answer.text();
    let laidOut = text;
    try { laidOut = JSON.stringify(JSON.parse(text), null, 2); } catch { /* no JSON: as it is */ }
    shown.textContent = `${answer.status} ${answer.statusText}\n${laidOut.slice(0, mostShown)}`;
  } catch (error) {
    shown.textContent = String(error);
  }
}

function offerTries(root) {
  for (const form of root.querySelectorAll("form[data-try]")) {
    form.hidden = false;
    form.addEventListener("submit", send);
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
  offerTries(root);
}

// A part is asked for only while the page is seen, and replaced only where it says something new and
// nothing in it has the focus: who reads it with the keyboard keeps their place.
const shown = new Map();

document.addEventListener("htmx:beforeRequest", (event) => {
  const isRefresh = event.detail.requestConfig.triggeringEvent?.type === "refresh";
  const isFollowed = stream !== null && event.detail.target.id === followed && !isRefresh;
  if (document.hidden || isFollowed) event.preventDefault();
});

document.addEventListener("htmx:beforeSwap", (event) => {
  const { xhr, target } = event.detail;
  if (xhr.status === 401) location.reload();
  const isNew = shown.get(target.id) !== xhr.responseText;
  const isRead = target.contains(document.activeElement) || isReadBack(target.querySelector("pre.log"));
  if (!isNew || isRead) event.detail.shouldSwap = false;
  else shown.set(target.id, xhr.responseText);
});

// The log of a run comes as it is written, by server-sent events. While they come, nothing is asked
// for every two seconds; where they do not come, or the page is hidden, that goes on as before.
const followed = "run", mostBreaks = 5, mostShown = 400000;
let stream = null, breaks = 0;

function append(log, piece) {
  const isBack = isReadBack(log);
  const span = document.createElement("span");
  span.className = piece.stream === "stderr" ? "bad" : "plain";
  span.textContent = piece.text;
  log.append(span);
  while (log.textContent.length > mostShown && log.childElementCount > 1) log.firstElementChild.remove();
  if (!isBack) log.scrollTop = log.scrollHeight;
}

function hear(event) {
  const piece = JSON.parse(event.data), part = document.getElementById(followed);
  const log = part.querySelector("pre.log");
  breaks = 0;
  if (log === null) part.dispatchEvent(new Event("refresh"));
  if (log === null || piece.number <= Number(part.dataset.after)) return;
  append(log, piece);
  part.dataset.after = piece.number;
}

function stop() {
  stream?.close();
  stream = null;
}

function follow() {
  const part = document.getElementById(followed);
  if (stream !== null || document.hidden || !part?.dataset.events) return;
  if (!window.EventSource || breaks > mostBreaks) return;
  stream = new EventSource(`${part.dataset.events}&after=${part.dataset.after}`);
  stream.addEventListener("log", hear);
  stream.addEventListener("state", () => document.getElementById(followed).dispatchEvent(new Event("refresh")));
  for (const last of ["end", "error"]) {
    stream.addEventListener(last, () => {
      breaks = last === "end" ? Infinity : breaks + 1;
      stop();  // what is asked for next brings the rest, and follows again where that is possible
      document.getElementById(followed).dispatchEvent(new Event("refresh"));
    });
  }
}

document.addEventListener("visibilitychange", () => document.hidden ? stop() : follow());

document.addEventListener("htmx:load", (event) => {
  begin(event.detail.elt);
  follow();
});

begin(document);
