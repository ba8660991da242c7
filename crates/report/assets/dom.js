"use strict";
// Elements. Texts are always put in as text.
const SVG = "http://www.w3.org/2000/svg";

function put(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || (value === false && !name.startsWith("aria-"))) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true && !name.startsWith("aria-") ? "" : String(value));
  }
  for (const child of [children].flat(9)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

const h = (name, attributes, ...children) => put(document.createElement(name), attributes, children);
const s = (name, attributes, ...children) => put(document.createElementNS(SVG, name), attributes, children);

const cut = (text, most) => {
  const all = Array.from(text);
  return all.length <= most ? text : all.slice(0, most - 1).join("") + "…";
};
const plural = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
const round = (number) => Math.round(number * 10) / 10;

// A number with few digits.
function short(value) {
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 1e9) return (value / 1e9).toPrecision(3) + "G";
  if (size >= 1e6) return (value / 1e6).toPrecision(3) + "M";
  if (size >= 1e4) return (value / 1e3).toPrecision(3) + "k";
  return String(Number(value.toPrecision(3)));
}

function seconds(time) {
  if (time < 1e-3) return `${Math.round(time * 1e6)} µs`;
  if (time < 1) return `${round(time * 1e3)} ms`;
  return `${round(time)} s`;
}

// A box that scrolls sideways where its content is wider, and says so.
function scroller(attributes, ...children) {
  const box = h("div", { class: "scroll", ...attributes, onscroll: (event) => cue(event.target) }, children);
  return h("div", { class: "scrolling" }, box, h("p", { class: "cue", "aria-hidden": true }, "scroll sideways →"));
}
function cue(box) {
  const hidden = box.scrollWidth - box.clientWidth;
  box.parentElement.classList.toggle("wide", hidden > 4);
  box.parentElement.classList.toggle("more", hidden - box.scrollLeft > 4);
}
const cues = () => document.querySelectorAll(".scroll").forEach(cue);

// Enter and the space bar do what a click does.
function pressable(action) {
  return {
    tabindex: 0,
    role: "button",
    onclick: action,
    onkeydown: (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        action(event);
      }
    },
  };
}

// What pointing at something, or reaching it with the keyboard, does.
const pointable = (enter, leave) => ({ onpointerenter: enter, onpointerleave: leave, onfocus: enter, onblur: leave });

const arrowHead = (id) =>
  s("marker", { id, viewBox: "0 0 10 10", refX: 8, refY: 5, markerWidth: 6.5, markerHeight: 6.5, orient: "auto-start-reverse" },
    s("path", { d: "M0 0L10 5L0 10z", class: "head-" + id.split("-").pop() }));
