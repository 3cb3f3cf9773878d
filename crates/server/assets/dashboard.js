// Script of the dashboard. Every page works without it: it adds the login link, the keyboard, the
// place of a comment, and the signs of a lost connection. It evaluates nothing and stores one switch.
"use strict";
(() => {
  const find = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  // A login link has its code in the fragment, which no server log and no referrer shows.
  const login = find("#login");
  if (login && location.hash.length > 8) {
    find("#secret").value = decodeURIComponent(location.hash.slice(1));
    history.replaceState(null, "", location.pathname + location.search);
    login.submit();
    return;
  }

  // Live connection: say when it is lost, and hide it when it is back.
  const offline = find("#offline");
  const setOffline = (lost) => { if (offline) offline.hidden = !lost; };
  document.addEventListener("htmx:sse:error", (event) => {
    const status = event.detail && event.detail.status;
    if (status === 401) location.reload();
    setOffline(true);
  });
  document.addEventListener("htmx:sse:after:connection", () => setOffline(false));
  // The count of the inbox goes into the title, where a hidden tab shows it.
  document.addEventListener("htmx:sse:after:message", () => {
    const count = Number((find("#waiting") || {}).textContent) || 0;
    const title = document.title.replace(/^\(\d+\) /, "");
    document.title = count > 0 ? `(${count}) ${title}` : title;
  });

  // A click on a line number fills in the place of the comment.
  document.addEventListener("click", (event) => {
    const line = event.target.closest("[data-comment]");
    if (!line) return;
    event.preventDefault();
    find("#comment-file").value = line.dataset.comment;
    find("#comment-line").value = line.dataset.line;
    find("#comment").scrollIntoView({ block: "center" });
    find("#comment-text").focus();
  });
  // A form is sent once, however often the button is pressed.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method !== "post") return;
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "true";
  });
  window.addEventListener("pageshow", () => all("form").forEach((form) => delete form.dataset.sent));

  // Keyboard.
  const dialog = find("#keys");
  const switchOff = find("#keys-off");
  const areOff = () => localStorage.getItem("keys") === "off";
  if (switchOff) {
    switchOff.checked = areOff();
    switchOff.addEventListener("change", () => localStorage.setItem("keys", switchOff.checked ? "off" : "on"));
  }
  const isField = (element) => element && element.matches("input, textarea, select, [contenteditable]");
  const search = () => { const field = find("#q") || find("#jump"); field.focus(); field.select(); };

  let current = -1;
  const move = (selector, step) => {
    const items = all(selector);
    if (items.length === 0) return;
    const marked = items.indexOf(find("[data-current]"));
    current = Math.min(Math.max((marked < 0 ? (step > 0 ? -1 : items.length) : marked) + step, 0), items.length - 1);
    all("[data-current]").forEach((item) => item.removeAttribute("data-current"));
    const item = items[current];
    item.setAttribute("data-current", "");
    if (item.matches("details")) item.open = true;
    item.scrollIntoView({ block: "center" });
    const link = find("a.title, summary", item);
    if (link) link.focus({ preventScroll: true });
  };

  let goes = false;
  const actions = {
    "?": () => dialog && dialog.showModal(),
    "/": search,
    j: () => move("[data-row]", 1),
    k: () => move("[data-row]", -1),
    n: () => move("[data-finding]", 1),
    p: () => move("[data-finding]", -1),
    "]": () => move("[data-file]", 1),
    "[": () => move("[data-file]", -1),
    e: () => { const field = find("#decide textarea"); if (field) field.focus(); },
  };
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "k") { event.preventDefault(); search(); return; }
    if (event.key === "Escape" && isField(event.target)) { event.target.blur(); return; }
    if (event.ctrlKey || event.metaKey || event.altKey || isField(event.target)) return;
    if (dialog && dialog.open) return;
    if (areOff() && event.key !== "?") return;
    if (goes) {
      goes = false;
      const link = find(`nav a[data-key="${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); link.click(); }
      return;
    }
    if (event.key === "g") { goes = true; setTimeout(() => { goes = false; }, 1500); return; }
    const action = actions[event.key];
    if (action) { event.preventDefault(); action(); }
  });
})();
