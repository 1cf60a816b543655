// Ways of packets over time. Times are nanoseconds from time 0 of the scenario.

const data = JSON.parse($('data').textContent);
const LEFT = 118;
const RIGHT = 12;
const AXIS = 22;

const packets = data.packets.map(([flow, kind, number, size, again, held, marked, dropped, ...flat]) => {
  const links = [];
  for (let i = 0; i < flat.length; i += 3) links.push({ port: flat[i], leaves: flat[i + 1], comes: flat[i + 2] });
  const lost = dropped ? { port: dropped[0], at: dropped[1] } : null;
  const begin = links[0]?.leaves ?? lost.at;
  return { flow, kind, number, size, again, held, marked, lost, links, begin, end: lost ? lost.at : links.at(-1).comes };
});
const sending = (p, port) => (data.ports[port][2] ? (p.size * 8e9) / data.ports[port][2] : 0);
// Time in switches between coming and beginning to leave.
const waits = (p) => p.links.slice(1).map((link, i) => link.leaves - p.links[i].comes);

const chosen = new Set(data.flows.map((_, i) => i));
const kinds = () => new Set([...document.querySelectorAll('input[name=kind]:checked')].map((input) => input.value));
const colours = data.flows.map((_, i) => (data.flows.length === 1 ? null : `hsl(${(i * 137.5 + 210) % 360} 62% ${isDark() ? 66 : 44}%)`));
function isDark() {
  return matchMedia('(prefers-color-scheme: dark)').matches;
}
const colour = (flow) => colours[flow] ?? paint('a');

const first = packets.reduce((a, p) => Math.min(a, p.begin - p.held), data.flows.reduce((a, f) => Math.min(a, f.start_ns), Infinity));
const last = packets.reduce((a, p) => Math.max(a, p.end), first + 1);
const margin = (last - first) * 0.01;
let view = [first - margin, last + margin];

// --- places: senders' lanes, a band for each switch on the way, receivers' lanes ---

const way = (flow) => packets.filter((p) => p.flow === flow && p.kind === 'data').reduce((n, p) => Math.max(n, p.links.length), 1);
const lengths = data.flows.map((_, i) => way(i));
const deepest = Math.max(1, ...lengths);
const receivers = [...new Set(data.flows.map((f) => f.dst))];
const lane = Math.max(5, Math.min(18, 230 / data.flows.length));
const target = Math.max(10, Math.min(18, 120 / receivers.length));
const GAP = 46;
const BAND = deepest > 2 ? 64 : 150;
const layout = (() => {
  const top = 6;
  const senders = lane * data.flows.length;
  const bands = [];
  let y = top + senders;
  for (let i = 1; i < deepest; i += 1) {
    y += GAP;
    bands.push({ top: y, bottom: y + BAND });
    y += BAND;
  }
  if (deepest === 1) y += 180;
  y += GAP;
  return { top, bands, receivers: y, bottom: y + target * receivers.length, names: bandNames() };
})();

function bandNames() {
  const found = Array.from({ length: deepest }, () => new Set());
  for (const p of packets) {
    if (p.kind !== 'data') continue;
    p.links.forEach((link, i) => i && found[deepest - lengths[p.flow] + i].add(`${data.ports[link.port][0]}->${data.ports[link.port][1]}`));
  }
  return found.slice(1).map((set) => (set.size > 1 ? `${set.size} ports` : [...set][0] ?? ''));
}

const sender = (flow) => layout.top + lane * (flow + 0.5);
const receiver = (flow) => layout.receivers + target * (receivers.indexOf(data.flows[flow].dst) + 0.5);
// Edge of the node before link i of a packet, or after its last: where it comes in, and where it leaves.
function edges(p, i) {
  const n = lengths[p.flow];
  const back = p.kind !== 'data';
  const place = back ? n - i : i;
  if (place <= 0) return [sender(p.flow), sender(p.flow)];
  if (place >= n) return [receiver(p.flow), receiver(p.flow)];
  const band = layout.bands[deepest - n + place - 1];
  return back ? [band.bottom, band.top] : [band.top, band.bottom];
}

// Stretches of a packet's way: over links, and the time in switches.
function stretches(p) {
  const found = [];
  p.links.forEach((link, i) => {
    const [came, leaves] = edges(p, i);
    if (i) found.push({ from: [p.links[i - 1].comes, came], to: [link.leaves, leaves], wait: true });
    found.push({ from: [link.leaves, leaves], to: [link.comes, edges(p, i + 1)[0]], port: link.port });
  });
  return found;
}

const shownPackets = () => {
  const which = kinds();
  return packets.filter((p) => chosen.has(p.flow) && which.has(p.kind) && p.end >= view[0] && p.begin - p.held <= view[1]);
};

// --- drawing ---

let near = null;
function draw() {
  const { to, width } = surface($('picture'), layout.bottom + AXIS);
  const plot = width - LEFT - RIGHT;
  const scale = plot / (view[1] - view[0]);
  const x = (ns) => LEFT + (ns - view[0]) * scale;
  to.textBaseline = 'middle';
  to.textAlign = 'right';
  for (const [i, band] of layout.bands.entries()) {
    to.fillStyle = paint('card');
    to.fillRect(LEFT, band.top, plot, BAND);
    to.fillStyle = paint('ink');
    to.fillText(layout.names[i], LEFT - 8, (band.top + band.bottom) / 2, LEFT - 10);
    to.fillStyle = paint('soft');
    to.fillText('queue', LEFT - 8, (band.top + band.bottom) / 2 + 15, LEFT - 10);
  }
  to.fillStyle = paint('ink');
  if (lane >= 11) data.flows.forEach((f, i) => to.fillText(f.src, LEFT - 8, sender(i), LEFT - 10));
  else to.fillText(`${data.flows.length} senders`, LEFT - 8, layout.top + (lane * data.flows.length) / 2);
  receivers.forEach((name, i) => to.fillText(name, LEFT - 8, layout.receivers + target * (i + 0.5), LEFT - 10));
  to.save();
  to.beginPath();
  to.rect(LEFT, 0, plot, layout.bottom + AXIS);
  to.clip();
  axis(to, x, plot);
  for (const i of chosen) {
    const f = data.flows[i];
    to.fillStyle = paint('line');
    const end = f.fct_ns === null ? view[1] : f.start_ns + f.fct_ns;
    to.fillRect(x(f.start_ns), sender(i) - Math.max(1, lane * 0.16), x(end) - x(f.start_ns), Math.max(2, lane * 0.32));
  }
  const seen = shownPackets();
  for (const p of seen) if (p.held) holds(to, x, p);
  const thin = seen.length > 3000 ? 0.5 : 0.85;
  for (const p of seen) if (p !== near) one(to, x, scale, p, thin);
  for (const p of seen) marks(to, x, p);
  if (near && seen.includes(near)) {
    one(to, x, scale, near, 1, 2.6);
    marks(to, x, near);
  }
  to.restore();
}

function axis(to, x, plot) {
  const [low, high] = view.map((ns) => ns / 1000);
  const all = ticks(low, high, plot / 120);
  for (const tick of all) {
    to.strokeStyle = paint('line');
    to.lineWidth = 1;
    to.beginPath();
    to.moveTo(x(tick * 1000), 0);
    to.lineTo(x(tick * 1000), layout.bottom);
    to.stroke();
    to.fillStyle = paint('soft');
    to.textAlign = 'center';
    to.fillText(label(tick, all[1] - all[0]), Math.min(x(tick * 1000), LEFT + plot - 24), layout.bottom + 12);
  }
}
// Far from time 0 a tick takes more digits than others.
function label(us, step) {
  const [scale, unit] = Math.abs(us) >= 1000 ? [1000, 'ms'] : [1, 'µs'];
  const places = Math.max(0, Math.min(6, Math.ceil(-Math.log10((step || 1) / scale) - 1e-9)));
  return `${(us / scale).toFixed(places)} ${unit}`.replace('-', '−');
}

function holds(to, x, p) {
  to.fillStyle = paint('hold');
  const height = Math.max(2, lane * 0.55);
  to.fillRect(x(p.begin - p.held), sender(p.flow) - height / 2, Math.max(1.5, x(p.begin) - x(p.begin - p.held)), height);
}

function one(to, x, scale, p, alpha, width = 1) {
  const isData = p.kind === 'data';
  to.globalAlpha = isData ? alpha : alpha * 0.55;
  to.strokeStyle = to.fillStyle = colour(p.flow);
  to.lineWidth = isData ? width : width * 0.7;
  for (const { from, to: till, port, wait } of stretches(p)) {
    // A packet is as long as it takes to send.
    const long = wait ? 0 : sending(p, port);
    to.beginPath();
    if (long * scale > 1.5) {
      to.moveTo(x(from[0]), from[1]);
      to.lineTo(x(from[0] + long), from[1]);
      to.lineTo(x(till[0]), till[1]);
      to.lineTo(x(till[0] - long), till[1]);
      to.globalAlpha *= 0.8;
      to.fill();
      to.globalAlpha /= 0.8;
    } else {
      to.moveTo(x(from[0]), from[1]);
      to.lineTo(x(till[0]), till[1]);
      to.stroke();
    }
  }
  to.globalAlpha = 1;
}

// Where a packet was dropped: at the port that had no room, or behind the link's beginning.
const lossAt = (p) => {
  const [came, leaves] = edges(p, p.links.length);
  return [p.lost.at, p.links.length ? (came + leaves) / 2 : sender(p.flow) + lane / 2];
};
function marks(to, x, p) {
  to.textAlign = 'center';
  to.font = 'bold 13px system-ui, sans-serif';
  if (p.marked !== null) {
    to.fillStyle = paint('mark');
    to.beginPath();
    to.arc(x(p.links[p.marked].leaves), edges(p, p.marked)[1], 2.6, 0, 7);
    to.fill();
  }
  if (p.again) {
    to.fillStyle = paint('again');
    const [a, b] = [x(p.begin), sender(p.flow)];
    to.beginPath();
    to.moveTo(a, b - 5);
    to.lineTo(a + 4.5, b + 4);
    to.lineTo(a - 4.5, b + 4);
    to.fill();
  }
  if (p.lost) {
    const [at, y] = lossAt(p);
    to.strokeStyle = paint('drop');
    to.lineWidth = 2;
    to.beginPath();
    to.moveTo(x(at) - 4, y - 4);
    to.lineTo(x(at) + 4, y + 4);
    to.moveTo(x(at) + 4, y - 4);
    to.lineTo(x(at) - 4, y + 4);
    to.stroke();
  }
  to.font = '12px system-ui, sans-serif';
}

// --- text ---

const named = (port) => `${data.ports[port][0]}->${data.ports[port][1]}`;
const ns = (value) => time(value / 1000);
const exact = (value) => `${(value / 1000).toFixed(3)} µs`;
function tell(p) {
  const f = data.flows[p.flow];
  const what = p.kind === 'data' ? `data, ${f.unit} ${count(p.number)}` : `${p.kind.replace('ack', 'ACK').replace('or-', 'OR-')} for ${f.unit} ${count(p.number)}`;
  const parts = [`flow ${f.id} ${f.src}->${f.dst}`, `${what} (${p.size} B)`];
  if (p.again) parts.push('retransmitted');
  if (p.held) parts.push(`held ${ns(p.held)} by On-Ramp before`);
  parts.push(`${p.kind === 'data' ? 'left its host' : 'left'} at ${exact(p.begin)}`);
  waits(p).forEach((wait, i) => parts.push(`${named(p.links[i + 1].port)}: waited ${ns(wait)}${p.marked === i + 1 ? ', ECN-marked' : ''}`));
  if (p.lost) parts.push(`dropped at ${named(p.lost.port)} at ${exact(p.lost.at)}`);
  else parts.push(`there at ${exact(p.end)}, one-way delay ${ns(p.end - p.begin)}`);
  return parts.join(' · ');
}

function facts() {
  const of = (test) => packets.filter((p) => p.kind === 'data' && test(p)).length;
  $('name').textContent = data.scenario;
  $('about').textContent = `seed ${data.seed} · ${data.about}`;
  document.title = `${data.scenario} · space and time · On-Ramp`;
  const to = receivers.length === 1 ? ` to ${receivers[0]}` : '';
  const ended = data.flows.filter((f) => f.fct_ns !== null);
  const end = ended.reduce((a, f) => Math.max(a, f.start_ns + f.fct_ns), -Infinity);
  const start = data.flows.reduce((a, f) => Math.min(a, f.start_ns), Infinity);
  $('flows').textContent = `${data.flows.length}${to}` + (ended.length ? `, from ${exact(start)} to ${exact(end)}: ${ns(end - start)}` : '');
  const inQueues = packets.filter((p) => p.kind === 'data').flatMap(waits).reduce((a, b) => Math.max(a, b), 0);
  $('packets').textContent = `${count(of(() => true))} with data, ${count(of((p) => p.again))} retransmitted, ${count(of((p) => p.lost))} dropped, ${count(of((p) => p.marked !== null))} ECN-marked` + (data.ends_only ? '' : `; longest wait at a port ${ns(inQueues)}`);
  const held = packets.reduce((sum, p) => sum + p.held, 0);
  $('holding').textContent = !data.onramp ? 'Off: nothing is held.' : data.ends_only ? `T ${data.onramp}; captures do not tell of holds.` : !held ? `T ${data.onramp}: none of these packets was held.` : `T ${data.onramp}: held for ${ns(held)} in all, ${plural(of((p) => p.held), 'time', 'times')}.`;
  $('foot').textContent = [data.ends_only ? 'On Linux packets are captured at both hosts only: what happens between them is one line.' : '', data.left_out ? `${count(data.left_out)} packets had no room.` : ''].join(' ');
  $('of-queues').hidden = data.ends_only;
  $('or-acks').hidden = !packets.some((p) => p.kind === 'or-ack');
  if (data.flows.length <= 4) document.querySelector('input[value=ack]').checked = true;
}

function table() {
  const body = $('table').tBodies[0];
  body.replaceChildren();
  data.flows.forEach((f, i) => {
    const own = packets.filter((p) => p.flow === i && p.kind === 'data');
    const row = put(body, 'tr');
    const label = put(put(row, 'td'), 'label');
    const box = put(label, 'input');
    Object.assign(box, { type: 'checkbox', checked: chosen.has(i) });
    box.addEventListener('change', () => {
      if (box.checked) chosen.add(i);
      else chosen.delete(i);
      draw();
    });
    put(label, 'i').style.background = colour(i);
    label.append(`${f.id} ${f.src}->${f.dst}, ${bytes(f.bytes)}`);
    const delays = own.filter((p) => !p.lost).map((p) => waits(p).reduce((a, b) => a + b, 0));
    const mean = delays.length ? delays.reduce((a, b) => a + b, 0) / delays.length : 0;
    const number = (test) => count(own.filter(test).length);
    const dash = data.ends_only;
    for (const cell of [
      exact(f.start_ns), f.fct_ns === null ? '–' : ns(f.fct_ns), count(own.length), number((p) => p.again), number((p) => p.lost), number((p) => p.marked !== null),
      dash ? '–' : ns(own.reduce((sum, p) => sum + p.held, 0)), dash ? '–' : ns(mean), dash ? '–' : ns(delays.reduce((a, b) => Math.max(a, b), 0)),
    ]) put(row, 'td', cell);
  });
}

// --- moving ---

const soon = withNextFrame(draw);
const canvas = $('picture');
const timeAt = (x) => view[0] + ((x - LEFT) / (canvas.clientWidth - LEFT - RIGHT)) * (view[1] - view[0]);
function zoom(by, around) {
  const whole = last - first + 2 * margin;
  const span = Math.min(whole, Math.max(50, (view[1] - view[0]) * by));
  const part = (around - view[0]) / (view[1] - view[0]);
  move(around - part * span, span);
}
function move(from, span) {
  const begin = Math.max(first - margin, Math.min(from, last + margin - span));
  view = [begin, begin + span];
  soon();
}
function whole() {
  view = [first - margin, last + margin];
  soon();
}

function nearest(x, y) {
  const scale = (canvas.clientWidth - LEFT - RIGHT) / (view[1] - view[0]);
  const px = (t) => LEFT + (t - view[0]) * scale;
  let [found, least] = [null, 8];
  const to = (ax, ay, bx, by) => {
    const [dx, dy] = [bx - ax, by - ay];
    const part = Math.max(0, Math.min(1, ((x - ax) * dx + (y - ay) * dy) / (dx * dx + dy * dy || 1)));
    return Math.hypot(x - ax - part * dx, y - ay - part * dy);
  };
  for (const p of shownPackets()) {
    if (px(p.begin - p.held) > x + 8 || px(p.end) < x - 8) continue;
    let away = p.lost ? Math.hypot(x - px(p.lost.at), y - lossAt(p)[1]) - 2 : Infinity;
    for (const { from, to: till } of stretches(p)) away = Math.min(away, to(px(from[0]), from[1], px(till[0]), till[1]));
    if (p.held) away = Math.min(away, to(px(p.begin - p.held), sender(p.flow), px(p.begin), sender(p.flow)) + 1);
    if (away < least) [found, least] = [p, away];
  }
  return found;
}

let dragged = null;
canvas.addEventListener('pointerdown', (event) => {
  dragged = { x: event.clientX, view: [...view] };
  canvas.setPointerCapture(event.pointerId);
});
canvas.addEventListener('pointerup', () => (dragged = null));
canvas.addEventListener('pointermove', (event) => {
  const { left, top } = canvas.getBoundingClientRect();
  if (dragged) {
    const span = dragged.view[1] - dragged.view[0];
    move(dragged.view[0] - ((event.clientX - dragged.x) / (canvas.clientWidth - LEFT - RIGHT)) * span, span);
    return;
  }
  const found = nearest(event.clientX - left, event.clientY - top);
  if (found === near) return;
  near = found;
  if (found) $('packet').textContent = tell(found);
  soon();
});
canvas.addEventListener('wheel', (event) => {
  event.preventDefault();
  zoom(event.deltaY > 0 ? 1.25 : 0.8, timeAt(event.clientX - canvas.getBoundingClientRect().left));
}, { passive: false });
canvas.addEventListener('dblclick', whole);
canvas.addEventListener('keydown', (event) => {
  const span = view[1] - view[0];
  const keys = {
    '+': () => zoom(0.8, (view[0] + view[1]) / 2), '-': () => zoom(1.25, (view[0] + view[1]) / 2), 0: whole,
    ArrowLeft: () => move(view[0] - span / 10, span), ArrowRight: () => move(view[0] + span / 10, span),
  };
  if (!keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});
$('in').addEventListener('click', () => zoom(0.5, (view[0] + view[1]) / 2));
$('out').addEventListener('click', () => zoom(2, (view[0] + view[1]) / 2));
$('all').addEventListener('click', whole);
for (const [id, all] of [['every', true], ['none', false]]) {
  $(id).addEventListener('click', () => {
    chosen.clear();
    if (all) data.flows.forEach((_, i) => chosen.add(i));
    table();
    soon();
  });
}
for (const input of document.querySelectorAll('input[name=kind]')) input.addEventListener('change', soon);
for (const key of document.querySelectorAll('[data-colour]')) key.style.borderColor = `var(--${key.dataset.colour})`;
window.addEventListener('resize', soon);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', soon);

facts();
table();
draw();
$('packet').textContent = packets.length ? 'Point at a packet for its times.' : 'There are no packets.';
