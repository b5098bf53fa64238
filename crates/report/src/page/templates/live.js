"use strict";

// Puts the page of the moment in place of the one shown, with the same choices made and the same parts unfolded.
async function renew() {
  const answer = await fetch("/", { cache: "no-store" });
  const next = new DOMParser().parseFromString(await answer.text(), "text/html");
  const chosen = new Map([...document.querySelectorAll("input")].map((input) => [input.id, input.checked]));
  const unfolded = [...document.querySelectorAll("details")].map((part) => part.open);

  document.title = next.title;
  document.querySelector("main").replaceWith(next.querySelector("main"));

  for (const input of document.querySelectorAll("input")) {
    if (chosen.has(input.id)) input.checked = chosen.get(input.id);
  }
  document.querySelectorAll("details").forEach((part, at) => {
    if (at < unfolded.length) part.open = unfolded[at];
  });
}

let last = Promise.resolve();
const events = new EventSource("/events");
events.onmessage = () => {
  last = last.then(renew).catch(() => {});
};
events.onerror = () => {
  const state = document.getElementById("live");
  if (state) state.textContent = "not connected: the run may have ended";
};
