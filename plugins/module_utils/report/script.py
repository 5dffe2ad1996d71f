# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The script of a report's page: sorts and filters tables, shows values of a heat map. It loads nothing.

The page can be read without it. It handles texts only as text, never as HTML.
"""

from __future__ import annotations

SCRIPT = r"""
'use strict';
(function () {
  const collator = new Intl.Collator('en', {numeric: true, sensitivity: 'base'});

  // A cell's key: its number if it has one, else its text.
  function key(cell) {
    if (cell.dataset.key !== undefined) return Number(cell.dataset.key);
    return cell.textContent;
  }

  function compare(a, b) {
    const numbers = (typeof a === 'number') - (typeof b === 'number');
    if (numbers) return -numbers;
    return typeof a === 'number' ? a - b : collator.compare(a, b);
  }

  function sort(table, column) {
    const heads = table.tHead.rows[0].cells;
    const falling = heads[column].getAttribute('aria-sort') === 'ascending';
    for (const head of heads) head.removeAttribute('aria-sort');
    heads[column].setAttribute('aria-sort', falling ? 'descending' : 'ascending');
    const body = table.tBodies[0];
    const rows = Array.from(body.rows, row => [key(row.cells[column]), row]);
    rows.sort((a, b) => falling ? compare(b[0], a[0]) : compare(a[0], b[0]));
    const sorted = document.createDocumentFragment();
    for (const row of rows) sorted.append(row[1]);
    body.append(sorted);
  }

  for (const table of document.querySelectorAll('table.sortable')) {
    Array.from(table.tHead.rows[0].cells).forEach((head, column) => {
      head.firstElementChild.addEventListener('click', () => sort(table, column));
    });
  }

  for (const button of document.querySelectorAll('button.all')) {
    button.addEventListener('click', () => {
      button.previousElementSibling.querySelector('table').classList.remove('folded');
      button.remove();
    });
  }

  for (const field of document.querySelectorAll('input.filter')) {
    const box = field.closest('section');
    const table = box.querySelector('table.sortable');
    const shown = box.querySelector('.shown');
    const folded = table.classList.contains('folded');
    let waiting = 0;
    field.addEventListener('input', () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => {
        const word = field.value.trim().toLowerCase();
        let count = 0;
        for (const row of table.tBodies[0].rows) {
          row.hidden = word !== '' && !row.textContent.toLowerCase().includes(word);
          if (!row.hidden) count += 1;
        }
        table.classList.toggle('folded', folded && word === '' && box.querySelector('button.all') !== null);
        shown.textContent = word === '' ? '' : count + ' of ' + table.tBodies[0].rows.length + ' rows';
      }, 150);
    });
  }

  // -- heat maps: a pixel of the PNG is a colour of its palette, and that is a value ---------------
  async function pixels(image) {
    const bytes = Uint8Array.from(atob(image.getAttribute('href').split(',')[1]), one => one.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    for (let at = 8; at < bytes.length; at += 12 + view.getUint32(at)) {
      if (view.getUint32(at + 4) === 0x49444154) {
        const data = new Blob([bytes.subarray(at + 8, at + 8 + view.getUint32(at))]);
        const stream = data.stream().pipeThrough(new DecompressionStream('deflate'));
        return new Uint8Array(await new Response(stream).arrayBuffer());
      }
    }
    throw new Error('the image has no data');
  }

  function words(about, index) {
    if (index === 0) return 'not measured';
    if (index === 1) return 'ran without a number';
    const place = about.ramps.findIndex(one => index < one[0] + one[1]);
    const [first, count, begin, end, cut] = about.ramps[place];
    const value = begin + (end - begin) * (index - first) / (count - 1);
    const said = value.toLocaleString('en', {maximumSignificantDigits: 4});
    const edge = cut && index === first + count - 1 ? about.more : 'about';
    const bad = about.ramps.length > 1 && place === 0 ? ', ' + about.bad : '';
    return edge + ' ' + said + ' ' + about.unit + bad;
  }

  for (const box of document.querySelectorAll('.heat')) {
    const about = JSON.parse(box.dataset.map);
    const count = about.names.length;
    const output = box.nextElementSibling.querySelector('output');
    const image = box.previousElementSibling.querySelector('image');
    let data = null;
    let row = -1;
    let column = -1;

    async function show(toRow, toColumn) {
      row = Math.max(0, Math.min(count - 1, toRow));
      column = Math.max(0, Math.min(count - 1, toColumn));
      for (const svg of box.querySelectorAll('svg')) {
        const cell = Number(svg.dataset.cell);
        const wide = Math.max(cell, 5);
        const cursor = svg.querySelector('.cursor');
        cursor.setAttribute('x', Number(svg.dataset.x) + (column + 0.5) * cell - wide / 2);
        cursor.setAttribute('y', Number(svg.dataset.y) + (row + 0.5) * cell - wide / 2);
        cursor.setAttribute('width', wide);
        cursor.setAttribute('height', wide);
      }
      const names = about.names[row] + ' and ' + about.names[column] + ': ';
      try {
        data = data || pixels(image);
        const index = (await data)[row * (count + 1) + 1 + column];
        output.textContent = row === column ? about.names[row] + ': the same host' : names + words(about, index);
      } catch (error) {
        output.textContent = names + 'this browser cannot read the image';
      }
    }

    box.addEventListener('pointermove', event => {
      const svg = event.target.closest('svg');
      if (!svg || svg.dataset.cell === undefined) return;
      const place = svg.getBoundingClientRect();
      const scale = svg.viewBox.baseVal.width / place.width;
      const cell = Number(svg.dataset.cell);
      const atColumn = Math.floor(((event.clientX - place.left) * scale - Number(svg.dataset.x)) / cell);
      const atRow = Math.floor(((event.clientY - place.top) * scale - Number(svg.dataset.y)) / cell);
      if (atRow >= 0 && atRow < count && atColumn >= 0 && atColumn < count) show(atRow, atColumn);
    });
    box.addEventListener('keydown', event => {
      const moves = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};
      const move = moves[event.key];
      if (!move) return;
      event.preventDefault();
      if (row < 0) show(0, 0); else show(row + move[0], column + move[1]);
    });
  }
})();
"""
