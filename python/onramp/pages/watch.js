// The page of a run: it asks its server once a second while the run goes, or has all data within.

const LEFT = 64;
const RIGHT = 10;
const HEAT_LEFT = 168;
const NAMES = { small: 'small flows', medium: 'medium flows', large: 'large flows', requests: 'requests, collectives' };

let state = JSON.parse($('data').textContent);
const live = state === null;
let at = null; // Time under the pointer [µs].
let group = null;
let goneSince = null;

const picture = () => state?.picture;
const begin = () => picture().begin_us;
const end = () => picture().end_us.at(-1) ?? begin();
const starts = (i) => (i ? picture().end_us[i - 1] : begin());

function frameAt(us) {
  const ends = picture().end_us;
  let [low, high] = [0, ends.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ends[middle] < us) low = middle + 1;
    else high = middle;
  }
  return low;
}

// --- charts over time ---

const across = (width, left) => {
  const scale = (width - left - RIGHT) / (end() - begin() || 1);
  return { x: (us) => left + (us - begin()) * scale, us: (x) => begin() + (x - left) / scale };
};

function axis(to, x, bottom, width, left) {
  to.fillStyle = paint('soft');
  to.textBaseline = 'top';
  to.textAlign = 'center';
  for (const tick of ticks(begin(), end(), (width - left) / 130)) to.fillText(brief(tick), Math.min(x(tick), width - 22), bottom + 4);
}

function warmUp(to, x, left, bottom) {
  if (begin() < 0) {
    to.fillStyle = paint('shade');
    to.fillRect(left, 0, Math.max(0, x(0) - left), bottom);
  }
}

function cross(to, x, bottom) {
  if (at === null) return;
  to.strokeStyle = paint('soft');
  to.lineWidth = 1;
  to.beginPath();
  to.moveTo(x(at), 0);
  to.lineTo(x(at), bottom);
  to.stroke();
}

// Lines of values, one for each frame; null is a gap.
function chart(id, lines, { format = count, most = 0 } = {}) {
  const canvas = $(id);
  const { to, width, height } = surface(canvas, Number(canvas.dataset.height ?? (canvas.dataset.height = canvas.getAttribute('height'))));
  const bottom = height - 20;
  const { x } = across(width, LEFT);
  // Not by Math.max(...values): that has a limit.
  const top = lines.reduce((max, { values }) => values.reduce((a, b) => Math.max(a, b), max), most) * 1.05 || 1;
  const y = (value) => bottom - (value / top) * (bottom - 6);
  warmUp(to, x, LEFT, bottom);
  to.strokeStyle = paint('line');
  to.fillStyle = paint('soft');
  to.textAlign = 'right';
  to.textBaseline = 'middle';
  to.lineWidth = 1;
  for (const tick of ticks(0, top, bottom / 40)) {
    to.fillText(format(tick), LEFT - 6, Math.max(7, y(tick)));
    to.beginPath();
    to.moveTo(LEFT, y(tick));
    to.lineTo(width - RIGHT, y(tick));
    to.stroke();
  }
  axis(to, x, bottom, width, LEFT);
  for (const { values, colour, fill } of lines) {
    to.beginPath();
    values.forEach((value, i) => {
      if (value === null) return;
      if (i && values[i - 1] === null) to.moveTo(x(starts(i)), y(value));
      else to.lineTo(x(starts(i)), y(value));
      to.lineTo(x(picture().end_us[i]), y(value));
    });
    if (fill) {
      to.lineTo(x(picture().end_us.at(-1) ?? 0), bottom);
      to.lineTo(LEFT, bottom);
      to.globalAlpha = 0.18;
      to.fillStyle = paint(colour);
      to.fill();
      to.globalAlpha = 1;
    }
    to.strokeStyle = paint(colour);
    to.lineWidth = values.includes(null) ? 2.5 : 1.4;
    to.stroke();
    // One alone would hardly be seen.
    to.fillStyle = paint(colour);
    values.forEach((value, i) => {
      if (value === null || (values[i - 1] ?? null) !== null || (values[i + 1] ?? null) !== null) return;
      to.beginPath();
      to.arc(x(picture().end_us[i]), y(value), 2, 0, 7);
      to.fill();
    });
  }
  cross(to, x, bottom);
}

// --- the heat map ---

const isDark = () => matchMedia('(prefers-color-scheme: dark)').matches;
function shades() {
  const stops = HEAT[isDark() ? 'dark' : 'light'];
  return Array.from({ length: 101 }, (_, n) => {
    const part = n / 100;
    const next = Math.max(1, stops.findIndex(([to]) => to >= part));
    const [[a, ...from], [b, ...till]] = [stops[next - 1], stops[next]];
    const mix = from.map((value, i) => Math.round(value + ((till[i] - value) * (part - a)) / (b - a)));
    return `rgb(${mix.join(' ')})`;
  });
}

const shown = () => document.querySelector('input[name=shown]:checked').value;
const HEIGHT = { few: 13, many: 8 };
// Places of rows from the top; a kind of link has a gap before it.
function places() {
  const { rows: all } = picture();
  const height = all.length > 40 ? HEIGHT.many : HEIGHT.few;
  let y = 7;
  return all.map((row, i) => {
    if (i && row.kind !== all[i - 1].kind) y += 8;
    const place = { y, height, first: !i || row.kind !== all[i - 1].kind };
    y += height;
    return place;
  });
}

let drawn = null; // The map without the line, and what it was drawn of.
function heat() {
  const { rows: all, mean_percent: mean, most_percent: most, queue_ns: queue } = picture();
  const where = places();
  const bottom = where.at(-1).y + where.at(-1).height;
  const values = { mean, most, queue }[shown()];
  const top = shown() === 'queue' ? values.reduce((a, line) => line.reduce((b, v) => Math.max(b, v), a), 1000) : 100;
  const { to, width } = surface($('heat'), bottom + 20);
  const { x } = across(width, HEAT_LEFT);
  const of = [width, bottom, shown(), picture().end_us.length, picture().end_us.at(-1), isDark(), window.devicePixelRatio, end()].join();
  if (drawn?.of !== of) {
    const canvas = document.createElement('canvas');
    const scale = window.devicePixelRatio || 1;
    Object.assign(canvas, { width: Math.round(width * scale), height: Math.round(bottom * scale) });
    const map = canvas.getContext('2d');
    map.scale(scale, scale);
    const palette = shades();
    values.forEach((line, row) => {
      const { y, height } = where[row];
      map.fillStyle = palette[0];
      map.fillRect(HEAT_LEFT, y, width - HEAT_LEFT - RIGHT, height - 0.5);
      line.forEach((value, i) => {
        if (!value) return;
        const part = value / top;
        map.fillStyle = palette[Math.min(100, Math.round(100 * (shown() === 'queue' ? Math.sqrt(part) : part)))];
        const [from, till] = [x(starts(i)), x(picture().end_us[i])];
        map.fillRect(from, y, Math.max(till - from, 0.5) + 0.3, height - (height > 10 ? 1 : 0.5));
      });
    });
    drawn = { of, canvas };
    const key = surface($('scale'));
    palette.forEach((colour, n) => {
      key.to.fillStyle = colour;
      key.to.fillRect((n * key.width) / 101, 0, key.width / 101 + 1, key.height);
    });
    $('top').textContent = shown() === 'queue' ? `${time(top / 1000)} (by the square root)` : '100%';
  }
  to.drawImage(drawn.canvas, 0, 0, width, bottom);
  warmUp(to, x, HEAT_LEFT, bottom);
  to.textBaseline = 'middle';
  all.forEach((row, i) => {
    const { y, height, first } = where[i];
    const few = height === HEIGHT.few;
    if (!few && !first) return;
    to.fillStyle = paint('ink');
    to.textAlign = 'right';
    const links = all.filter((other) => other.kind === row.kind).reduce((sum, other) => sum + other.links, 0);
    to.fillText(few ? row.name : `${row.kind} (${count(links)})`, HEAT_LEFT - 8, y + height / 2 + (few ? 0 : 1), HEAT_LEFT - 10);
  });
  axis(to, x, bottom, width, HEAT_LEFT);
  cross(to, x, bottom);
}

// --- text ---

function facts() {
  $('name').textContent = state.scenario;
  $('about').textContent = `seed ${state.seed} · ${state.about}`;
  document.title = `${state.state === 'running' ? `${Math.floor(state.share * 100)}% · ` : ''}${state.scenario} · On-Ramp`;
  const p = picture();
  const bar = $('bar');
  bar.value = state.share;
  bar.hidden = state.state !== 'running';
  const done = `${time(state.simulated_us)} simulated · ${digits(state.packet_hops / 1e6)} M packet-hops · ${lasting(state.wall_s)}`;
  if (state.state === 'running') {
    const left = state.left_s === null ? 'starting' : `about ${lasting(state.left_s)} left`;
    $('run').textContent = `${Math.floor(state.share * 100)}% · ${left} · ${done}`;
  } else {
    $('run').textContent = `${state.state === 'done' ? 'ended' : `interrupted at ${percent(state.share)}`} · ${done}`;
  }
  if (!p?.end_us.length) return;
  const last = p.end_us.length - 1;
  $('flows').textContent = `${count(p.done[last])} done, ${count(p.open[last])} under way`;
  const [deep, us, name] = [p.deepest_bytes[last], p.deepest_us[last], p.names[p.deepest_port[last]]];
  const peak = p.ports.reduce((a, b) => (b.peak_delay_us > (a?.peak_delay_us ?? 0) ? b : a), null);
  const most = peak ? ` Longest so far: ${time(peak.peak_delay_us)} at ${peak.name}.` : '';
  $('deepest').textContent = (deep ? `${name}: ${bytes(deep)}, ${time(us)} to send.` : 'All queues are empty.') + most;
  const held = p.paths_held[last];
  const t = state.threshold ? `T ${state.threshold}: ` : '';
  $('holding').textContent = state.onramp
    ? `${t}${count(held)} of ${count(p.paths_open[last])} paths with flows held now; ${percent(heldShare())} of flows' time so far.`
    : 'Off in this run: nothing is held.';
}

const width = (i) => picture().end_us[i] - starts(i);
function heldShare() {
  const p = picture();
  let [held, open] = [0, 0];
  p.end_us.forEach((_, i) => {
    held += p.held_mean[i] * width(i);
    open += p.gates[i] * width(i);
  });
  return open ? Math.min(1, held / open) : 0;
}

function moment() {
  const p = picture();
  if (at === null || !p.end_us.length) return;
  const i = frameAt(at);
  const parts = [
    `${time(starts(i))} to ${time(p.end_us[i])}`,
    `${count(p.open[i])} flows under way`,
    `deepest queue ${p.deepest_bytes[i] ? `${p.names[p.deepest_port[i]]} ${bytes(p.deepest_bytes[i])}, ${time(p.deepest_us[i])}` : 'none'}`,
    `${count(p.marked[i])} marked, ${count(p.drops[i])} dropped, ${count(p.retransmitted[i])} retransmitted`,
  ];
  if (state.onramp) parts.push(`${count(p.paths_held[i])} of ${count(p.paths_open[i])} paths held`);
  $('moment').textContent = parts.join(' · ');
}

function tables() {
  const p = picture();
  const port = (q) => [q.name, bytes(q.bytes), time(q.delay_us), bytes(q.peak_bytes), time(q.peak_delay_us), time(q.peak_at_us)];
  rows($('ports'), p.ports.slice(0, 14).map(port), 'No switch has queued anything.');
  const line = ([name, g]) => [NAMES[name], count(g.count), time(g.mean_us), time(g.p50_us), time(g.p99_us), time(g.max_us)];
  rows($('times'), groupsWith().map(line), 'Nothing is complete yet.');
  rows($('held'), p.paths.map((h) => [h.name, time(h.held_us), percent(h.share), count(h.flows_held)]), 'No path was held.');
}

function groupsWith() {
  const all = picture().completions;
  return Object.keys(NAMES).filter((name) => all[name].count).map((name) => [name, all[name]]);
}

function choose() {
  const names = groupsWith().map(([name]) => name);
  const into = $('groups');
  if ([...into.querySelectorAll('input')].map((e) => e.value).join() === names.join()) return;
  if (!names.includes(group)) group = names.includes('requests') ? 'requests' : names[0] ?? null;
  into.replaceChildren();
  for (const name of names) {
    const label = put(into, 'label');
    const input = put(label, 'input');
    Object.assign(input, { type: 'radio', name: 'group', value: name, checked: name === group });
    input.addEventListener('change', () => {
      group = name;
      draw();
    });
    label.append(` ${NAMES[name]}`);
  }
}

// --- all of it ---

function draw() {
  if (!state) return;
  facts();
  const p = picture();
  if (!p?.end_us.length) return;
  $('holds').hidden = !state.onramp;
  const several = p.rows.some((row) => row.links > 1);
  for (const element of document.querySelectorAll('.several')) element.hidden = !several;
  choose();
  tables();
  graphs();
  $('foot').textContent = `${p.end_us.length} stretches of about ${time(width(p.end_us.length > 1 ? p.end_us.length - 2 : 0))}; queues, holds and flows under way are those at a stretch's end. ${state.foot}`;
}

function graphs() {
  const p = picture();
  if (!p?.end_us.length) return;
  heat();
  chart('queue', [{ values: p.deepest_us, colour: 'b' }], { format: brief, most: 1 });
  chart('lost', [{ values: p.marked, colour: 'mark' }, { values: p.drops, colour: 'drop' }, { values: p.retransmitted, colour: 'd' }], { most: 4 });
  chart('open', [{ values: p.open, colour: 'a', fill: true }], { most: 4 });
  const g = group && p.completions[group];
  const ended = (values) => values.map((value, i) => (g.counts[i] ? value : null));
  if (g) chart('fct', [{ values: ended(g.maxima_us), colour: 'grey' }, { values: ended(g.means_us), colour: 'a' }], { format: brief });
  if (state.onramp) {
    chart('paths', [{ values: p.paths_open, colour: 'grey', fill: true }, { values: p.paths_held, colour: 'd', fill: true }], { most: 4 });
    const share = p.held_mean.map((held, i) => (p.gates[i] ? Math.min(1, held / p.gates[i]) : 0));
    chart('share', [{ values: share, colour: 'd', fill: true }], { format: percent, most: 0.1 });
  }
  moment();
}

const soon = withNextFrame(graphs);

for (const canvas of document.querySelectorAll('canvas[role=img]')) {
  const isMap = canvas.id === 'heat';
  canvas.addEventListener('pointermove', (event) => {
    if (!picture()?.end_us.length) return;
    const { left, top } = canvas.getBoundingClientRect();
    const us = across(canvas.clientWidth, isMap ? HEAT_LEFT : LEFT).us(event.clientX - left);
    at = us >= begin() && us <= (picture().end_us.at(-1) ?? 0) ? us : null;
    if (isMap) {
      const row = places().findIndex(({ y, height }) => event.clientY - top >= y && event.clientY - top < y + height);
      $('cell').textContent = at === null || row < 0 ? ' ' : about(row, frameAt(at));
    }
    soon();
  });
  canvas.addEventListener('pointerleave', () => {
    at = null;
    soon();
  });
}

function about(row, i) {
  const p = picture();
  const { name, links, switch: queues } = p.rows[row];
  const [mean, most] = [p.mean_percent[row][i], p.most_percent[row][i]];
  const used = links > 1 ? `${count(links)} links, mean ${mean}%, busiest ${most}%` : `${mean}% used`;
  return `${name} · ${time(p.end_us[i])} · ${used}${queues ? `, longest queueing delay ${time(p.queue_ns[row][i] / 1000)}` : ''}`;
}

for (const input of document.querySelectorAll('input[name=shown]')) input.addEventListener('change', soon);
for (const key of document.querySelectorAll('[data-colour]')) key.style.borderColor = `var(--${key.getAttribute('data-colour')})`;
window.addEventListener('resize', soon);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', soon);

async function tick() {
  try {
    const answer = await fetch('/data.json', { cache: 'no-store', signal: AbortSignal.timeout(5000) });
    if (!answer.ok) throw new Error(await answer.text());
    state = await answer.json();
    goneSince = null;
  } catch {
    goneSince ??= Date.now();
  }
  const trouble = $('trouble');
  trouble.hidden = goneSince === null || Date.now() - goneSince < 3000;
  trouble.textContent = 'onramp watch does not answer: what is shown is from before.';
  draw();
  if (state?.state === 'running' || state === null) setTimeout(tick, 1000);
}

if (live) tick();
else draw();
