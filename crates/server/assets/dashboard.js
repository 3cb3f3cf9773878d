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

  // On a phone the sections scroll sideways: show the one that is open.
  const section = find(".side nav a[aria-current]");
  if (section && section.parentElement.scrollWidth > section.parentElement.clientWidth) section.scrollIntoView({ inline: "center", block: "nearest" });

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

  // A click on a line number opens the comment form below the line.
  const openComment = (cell) => {
    const original = find("#comment form");
    const table = cell && cell.closest("table[data-path]");
    if (!original || !table) return false;
    const opened = find("#comment-form");
    if (opened) opened.remove();
    const form = original.cloneNode(true);
    const row = cell.closest("tr");
    form.elements.file.value = table.dataset.path;
    form.elements.line.value = cell.dataset.line;
    const text = form.elements.text;
    text.id = "comment-here";
    find("label[for]", form).htmlFor = text.id;
    const close = find("[data-close]", form);
    close.hidden = false;
    const line = document.createElement("tr");
    line.id = "comment-form";
    line.className = "at";
    const place = line.insertCell();
    place.colSpan = row.cells.length;
    place.append(form);
    close.addEventListener("click", () => { line.remove(); cell.focus(); });
    row.after(line);
    text.focus();
    return true;
  };
  document.addEventListener("click", (event) => {
    const cell = event.target.closest("a[data-line]");
    if (cell && !event.ctrlKey && !event.metaKey && openComment(cell)) event.preventDefault();
  });

  // A file is marked as viewed without leaving the page.
  document.addEventListener("submit", async (event) => {
    const form = event.target.closest("[data-viewed-form]");
    if (!form) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    const button = find("button", form);
    const viewed = button.value === "true";
    const fields = new URLSearchParams(new FormData(form));
    fields.set("viewed", button.value);
    const answer = await fetch(form.action, { method: "POST", body: fields, redirect: "manual" }).catch(() => null);
    if (!answer || (answer.type !== "opaqueredirect" && !answer.ok)) { form.removeAttribute("data-viewed-form"); form.requestSubmit(button); return; }
    button.value = String(!viewed);
    button.setAttribute("aria-pressed", String(viewed));
    const file = find("[data-file]", form.parentElement);
    file.open = !viewed;
    const entry = find(`[data-tree="${file.dataset.file}"]`);
    if (entry) entry.toggleAttribute("data-viewed", viewed);
    const count = find("[data-viewed-count]");
    if (count) count.textContent = all(".viewed [aria-pressed=true]").length;
    if (viewed) file.scrollIntoView({ block: "nearest" });
  }, true);
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
  const search = () => { const field = find("#q") || find("#jump"); if (field) { field.focus(); field.select(); } };
  const jumpTo = find("#jump-to");
  const jump = () => { if (!jumpTo) return search(); jumpTo.showModal(); find("#jump-text").select(); };
  if (jumpTo) jumpTo.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const links = all("#jump-list a");
    if (links.length === 0) return;
    event.preventDefault();
    const at = links.indexOf(document.activeElement);
    const next = event.key === "ArrowDown" ? at + 1 : at - 1;
    if (next < 0) find("#jump-text").focus(); else links[Math.min(next, links.length - 1)].focus();
  });
  if (jumpTo) jumpTo.addEventListener("click", (event) => { if (event.target === jumpTo) jumpTo.close(); });

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

  const currentRow = () => find("[data-row][data-current]") || document.createElement("p");
  const open = () => { const link = find("a.title", currentRow()); if (link) link.click(); };
  const follow = (selector) => { const link = find(selector); if (link) link.click(); };
  // The file that is marked, or else the first one that is visible.
  const currentFile = () => find("[data-file][data-current]") || all("[data-file]").find((file) => file.getBoundingClientRect().bottom > 80);
  const decide = () => {
    const own = find("[data-decision]", currentRow()) || find("[data-decision]");
    if (own) own.open = true;
    const field = (own && find("textarea", own)) || find("#decide textarea");
    if (field) field.focus();
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
    e: () => decide(),
    o: () => open(),
    Enter: () => open(),
    x: () => { const box = find("input[type=checkbox]", currentRow()); if (box) { box.checked = !box.checked; const bar = find(".bulk"); if (bar) bar.open = all("[name=ticket]:checked").length > 0; } },
    v: () => { const file = currentFile(); const button = file && find(".viewed button", file.parentElement); if (button) button.form.requestSubmit(button); },
    u: () => follow("[data-view=u]"),
    s: () => follow("[data-view=s]"),
    c: () => { const file = currentFile(); const field = find("#comment-text"); if (!(file && openComment(find("a[data-line]", file))) && field) field.focus(); },
    f: () => { const last = find(".transcript > li:last-child"); if (last) last.scrollIntoView({ block: "end" }); },
  };
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "k") { event.preventDefault(); jump(); return; }
    if (event.key === "Escape" && isField(event.target)) { event.target.blur(); return; }
    if (event.ctrlKey || event.metaKey || event.altKey || isField(event.target)) return;
    if (find("dialog[open]")) return;
    if (event.key === "Enter" && event.target.closest("a, button, summary")) return;
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
