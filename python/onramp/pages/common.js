'use strict';
// All text goes into the page by textContent: names of scenarios, hosts and ports are never markup.

const $ = (id) => document.getElementById(id);
const paint = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// --- numbers as people read them ---

function digits(value) {
  const size = Math.abs(value);
  return value.toFixed(size === 0 || size >= 100 ? 0 : size < 10 ? 2 : 1);
}
function time(us) {
  const size = Math.abs(us);
  if (size === 0) return '0';
  const [scale, unit] = size < 1 ? [1e-3, 'ns'] : size < 1e3 ? [1, 'µs'] : size < 1e6 ? [1e3, 'ms'] : [1e6, 's'];
  return `${digits(us / scale)} ${unit}`.replace('-', '−');
}
// The same on an axis, whose numbers are round.
const brief = (us) => time(us).replace(/(\.\d*?)0+ /, '$1 ').replace('. ', ' ');
function bytes(value) {
  const [scale, unit] = value < 1e3 ? [1, 'B'] : value < 1e6 ? [1e3, 'KB'] : value < 1e9 ? [1e6, 'MB'] : [1e9, 'GB'];
  return `${scale === 1 ? value : digits(value / scale)} ${unit}`;
}
const count = (value) => Math.round(value).toLocaleString('en');
const plural = (n, one, many) => `${count(n)} ${n === 1 ? one : many}`;
const percent = (share) => (share > 0 && share < 0.01 ? '< 1%' : `${Math.round(100 * share)}%`);
function lasting(s) {
  const whole = Math.round(s);
  if (whole < 60) return `${whole} s`;
  return whole < 3600 ? `${Math.floor(whole / 60)} min ${whole % 60} s` : `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

function put(parent, tag, text, name) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (name) made.className = name;
  parent.append(made);
  return made;
}
function rows(table, lines, none) {
  const body = table.tBodies[0];
  body.replaceChildren();
  for (const line of lines) {
    const row = put(body, 'tr');
    for (const cell of line) put(row, 'td', cell);
  }
  if (!lines.length) put(put(body, 'tr'), 'td', none).colSpan = table.tHead.rows[0].cells.length;
}

// A canvas for drawing in CSS pixels.
function surface(canvas, height) {
  const scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  if (height) canvas.style.height = `${height}px`;
  else height = canvas.clientHeight;
  const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
  const to = canvas.getContext('2d');
  to.setTransform(scale, 0, 0, scale, 0, 0);
  to.clearRect(0, 0, width, height);
  to.font = '12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
  return { to, width, height };
}

// Round numbers between two values, about so many.
function ticks(low, high, wanted) {
  const rough = (high - low) / wanted;
  if (!(rough > 0)) return [];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n += 1) found.push(n * step + 0);
  return found;
}

// Draws with the next frame, once however often it is asked.
function withNextFrame(draw) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  };
}
