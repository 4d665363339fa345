"use strict";
/* The address keeps what the reader sees: panel, filters, switches, theme. State goes one way: address, then page. */
(() => {
  const listeners = [];

  const read = () => {
    const text = window.location.hash.slice(1);
    if (!text) return {};
    const state = {};
    for (const [key, value] of new URLSearchParams(text.includes("=") ? text : `at=${text}`)) state[key] = key in state ? [].concat(state[key], value) : value;
    return state;
  };

  const address = (state) => {
    const words = new URLSearchParams();
    for (const [key, value] of Object.entries(state)) for (const entry of [].concat(value)) words.append(key, entry);
    return window.location.href.split("#")[0] + (words.size ? `#${words}` : "");
  };

  const apply = (next) => {
    const before = breadth.state;
    breadth.state = next;
    for (const listener of listeners) listener(next, before);
  };

  breadth.state = read();
  breadth.onState = (listener) => listeners.push(listener);

  /* Change some keys (null removes one). A new view is a new entry of the history; a filter or a switch is not. */
  breadth.go = (changes, { push = true } = {}) => {
    const next = {};
    for (const [key, value] of Object.entries({ ...breadth.state, ...changes })) {
      if (value === null || value === undefined || value === "" || (Array.isArray(value) && !value.length)) continue;
      next[key] = Array.isArray(value) ? value.map(String) : String(value); /* as it will be read from the address */
    }
    const target = address(next);
    if (target !== window.location.href) window.history[push ? "pushState" : "replaceState"](null, "", target);
    apply(next);
  };

  window.addEventListener("popstate", () => apply(read()));

  /* Links to sections keep the rest of the state. */
  document.addEventListener("click", (event) => {
    const link = event.target.closest && event.target.closest('a[href^="#"]');
    if (!link || event.metaKey || event.ctrlKey) return;
    const target = document.getElementById(link.getAttribute("href").slice(1));
    if (!target) return;
    event.preventDefault();
    if (target.id === "main") target.focus();
    else breadth.go({ at: target.id });
    target.scrollIntoView();
  });
})();
