// Live parts of the dashboard: a page that loads again when it missed too much, transcripts that
// follow their end, forms that keep what was typed, and notifications. Every page works without it.
"use strict";
(() => {
  const find = (selector, root = document) => root.querySelector(selector);

  // What a person types is marked, and updates of the page leave a marked form alone.
  document.addEventListener("input", (event) => {
    const form = event.target.closest("form");
    if (form && form.method === "post") form.setAttribute("data-dirty", "");
    if (event.target.setCustomValidity) event.target.setCustomValidity("");
  });
  // A choice that needs a reason is refused in place if there is none.
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-needs]");
    const field = button && document.getElementById(button.dataset.needs);
    if (!field || field.value.trim() !== "") return;
    event.preventDefault();
    field.setCustomValidity(`Write a reason: ${button.value} is recorded with it.`);
    field.reportValidity();
  });

  // The stream library connects again after a lost connection, but not if the first try failed, as
  // when the server goes away while the page loads.
  const live = find("#live");
  if (live) {
    let tries = 0;
    const connect = () => {
      const isOpen = live._htmx && live._htmx.sse;
      if (!isOpen && !document.hidden) {
        tries += 1;
        if (find("#offline")) find("#offline").hidden = false;
        htmx.ajax("GET", live.getAttribute("hx-sse:connect"), { source: live });
      } else if (isOpen) tries = 0;
      setTimeout(connect, tries < 10 ? 2000 : 30000);
    };
    setTimeout(connect, 2000);
  }

  // A card that comes from another column is marked for a while.
  const columns = () => new Map([...document.querySelectorAll(".board .card")].map((card) => [card.id, card.closest(".column").id]));
  let before = columns();
  // A column that had a card keeps its width, so that the columns next to it do not move.
  const widen = () => document.querySelectorAll(".column:has(.card)").forEach((column) => column.setAttribute("data-used", ""));
  widen();
  // The open log keeps a bounded number of lines.
  const lines = find("#lines");
  document.addEventListener("htmx:sse:after:message", () => {
    if (lines) while (lines.children.length > Number(lines.dataset.linesMax) * 2) lines.lastElementChild.remove();
    const after = columns();
    for (const [id, column] of after) {
      if (!before.has(id) || before.get(id) === column) continue;
      const card = document.getElementById(id);
      card.setAttribute("data-moved", "");
      setTimeout(() => card.removeAttribute("data-moved"), 3000);
    }
    before = after;
    widen();
  });

  // Ages on an open page grow. They are counted by the clock of the server.
  const ahead = Number(document.body.dataset.now) - Date.now();
  const UNITS = [[172800, 86400, "d"], [3600, 3600, "h"], [60, 60, "min"], [0, 1, "s"]];
  const age = () => document.querySelectorAll("time").forEach((time) => {
    const seconds = Math.trunc((Date.now() + ahead - Date.parse(time.dateTime)) / 1000);
    const distance = Math.abs(seconds);
    const [, size, unit] = UNITS.find(([from]) => distance >= from);
    const words = `${Math.floor(distance / size)} ${unit}`;
    time.textContent = distance < 5 ? "now" : seconds < 0 ? `in ${words}` : `${words} ago`;
  });
  if (document.body.dataset.now) setInterval(age, 15000);

  // A page that missed too much loads again, once. A form that somebody writes in stays.
  document.addEventListener("page:reload", () => {
    if (find("form[data-dirty]")) { const note = find("#offline"); note.textContent = "Much has changed. Reload when your form is sent."; note.hidden = false; return; }
    location.reload();
  });
  // A page from the history of a browser is as old as its last visit, and may be of an ended session.
  window.addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

  // A transcript follows its end while the reader is at the end, and keeps a bounded number of turns.
  const turns = find("#turns");
  const atEnd = () => window.innerHeight + window.scrollY >= document.documentElement.scrollHeight - 80;
  let follows = false;
  if (turns && find("#live")) {
    follows = !location.hash && !location.search.includes("from=");
    if (follows) window.scrollTo(0, document.documentElement.scrollHeight);
    document.addEventListener("scroll", () => { follows = atEnd(); }, { passive: true });
    document.addEventListener("htmx:sse:after:message", () => {
      const most = Number(turns.dataset.turnsMax) || 500;
      while (turns.children.length > most) {
        turns.firstElementChild.remove();
        turns.start += 1;
      }
      if (follows) window.scrollTo(0, document.documentElement.scrollHeight);
    });
  }

  // Notifications: opt-in for this browser. One tab holds the lock and the stream, so several tabs
  // notify once; when it closes, another one takes over.
  const NOTIFY = "notify";
  const channel = "BroadcastChannel" in window ? new BroadcastChannel("countersign") : null;
  const isOn = () => "Notification" in window && Notification.permission === "granted" && localStorage.getItem(NOTIFY) === "on";
  const loggedIn = find("form.person");
  let stream = null;
  let release = null;

  const show = (event) => {
    let alert = null;
    try { alert = JSON.parse(event.data); } catch { return; }
    const path = alert.ticket ? `/tickets/${encodeURIComponent(alert.ticket)}` : "/";
    const title = alert.ticket ? `${alert.ticket} needs you` : "Countersign needs you";
    const note = new Notification(title, { body: alert.text, tag: `countersign ${alert.ticket || event.lastEventId}` });
    note.onclick = () => { window.focus(); note.close(); location.assign(path); };
  };
  const listen = () => new Promise((done) => {
    release = () => { if (stream) stream.close(); stream = null; release = null; done(); };
    stream = new EventSource("/pages/alerts");
    stream.addEventListener("alert", show);
    // The session has ended, or the server refuses: another try would be refused as well.
    stream.addEventListener("error", () => { if (stream && stream.readyState === EventSource.CLOSED && release) release(); });
  });
  const start = () => {
    if (!loggedIn || !isOn() || release || !navigator.locks) return;
    navigator.locks.request("countersign-notify", () => (isOn() ? listen() : undefined));
  };
  const stop = () => { if (release) release(); };

  const panel = find("#notify");
  const render = () => {
    if (!panel) return;
    const button = find("#notify-switch");
    panel.hidden = !("Notification" in window && navigator.locks);
    if (panel.hidden) return;
    const on = isOn();
    button.textContent = on ? "Turn off" : "Turn on";
    button.setAttribute("aria-pressed", String(on));
    find("#notify-state").textContent = Notification.permission === "denied"
      ? "The browser refuses notifications of this page; allow them in its settings." : on ? "On in this browser." : "Off in this browser.";
  };
  if (panel) {
    find("#notify-switch").addEventListener("click", async () => {
      if (isOn()) localStorage.setItem(NOTIFY, "off");
      else if (await Notification.requestPermission() === "granted") localStorage.setItem(NOTIFY, "on");
      render();
      if (isOn()) start(); else stop();
      if (channel) channel.postMessage("notify");
    });
  }
  if (channel) {
    channel.addEventListener("message", (event) => {
      if (event.data === "notify") { render(); if (isOn()) start(); else stop(); }
      // Another tab has logged out: this one shows nothing any more.
      if (event.data === "logout") location.replace("/login");
    });
  }
  if (loggedIn) {
    loggedIn.addEventListener("submit", () => {
      stop();
      if (channel) setTimeout(() => channel.postMessage("logout"), 0);
    });
  }
  render();
  start();
})();
