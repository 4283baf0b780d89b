#!/usr/bin/env bash
# Concern: our percentiles are the ones that everybody else would print. Method: the same random
# values into HdrHistogram (its JavaScript port, from npm) with five significant digits, which is
# as good as exact, and into ours, whose buckets are at most 0.8 % wide.
# Usage: hdr_histogram_test.sh PROGRAM
set -euo pipefail
program=$1
skip() { echo "SKIPPED: $1"; exit 77; }

command -v npm >/dev/null && command -v node >/dev/null || skip "npm and node are not installed"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
timeout 60 npm install --no-audit --no-fund --silent hdr-histogram-js@3.0.0 >npm.log 2>&1 ||
  skip "npm could not get hdr-histogram-js: $(tail -n 1 npm.log)"

seed=${PAIL_SEED:-$(date +%s)}
echo "PAIL_SEED=$seed"
percentiles="1 10 25 50 75 90 95 99 99.5 99.9 99.99 100"

cat >compare.js <<'JS'
const hdr = require('hdr-histogram-js');
const {execFileSync} = require('child_process');
const [program, seed, percentiles] = process.argv.slice(2);
let state = BigInt(seed);
const random = () => {  // splitmix64, in [0, 1)
  state = BigInt.asUintN(64, state + 0x9E3779B97F4A7C15n);
  let x = state;
  x = BigInt.asUintN(64, (x ^ (x >> 30n)) * 0xBF58476D1CE4E5B9n);
  x = BigInt.asUintN(64, (x ^ (x >> 27n)) * 0x94D049BB133111EBn);
  return Number((x ^ (x >> 31n)) >> 11n) / 2 ** 53;
};
const shapes = {
  uniform: () => 1 + Math.floor(random() * 1e6),
  'every magnitude': () => Math.floor(10 ** (random() * 9)),
  'exponential with a tail': () =>
      1 + Math.floor(-Math.log(1 - random()) * (random() < 0.001 ? 5e7 : 2e5)),
  small: () => Math.floor(random() * 100),
};
let faults = 0;
for (const [shape, draw] of Object.entries(shapes)) {
  const theirs = hdr.build({lowestDiscernibleValue: 1, highestTrackableValue: 2 ** 40,
                            numberOfSignificantValueDigits: 5, bitBucketSize: 64});
  const values = Array.from({length: 50000}, draw);
  for (const value of values) theirs.recordValue(value);
  const output = execFileSync(program, percentiles.split(' '), {input: values.join('\n')});
  const check = (what, ours, expected, tolerance) => {
    if (Math.abs(ours - expected) <= Math.abs(expected) * tolerance + 0.5) return;
    console.log(`${shape}: ${what} is ${ours}, HdrHistogram says ${expected}`);
    faults++;
  };
  for (const line of output.toString().trim().split('\n')) {
    const [what, text] = line.split(' ');
    const ours = Number(text);
    if (what === 'count') check(what, ours, theirs.totalCount, 0);
    else if (what === 'mean') check(what, ours, theirs.mean, 0.005);
    else if (what === 'deviation') check(what, ours, theirs.stdDeviation, 0.01);
    else check(`p${what}`, ours, theirs.getValueAtPercentile(Number(what)), 0.0081);
  }
}
console.log(faults === 0 ? 'the same percentiles' : `${faults} differences`);
process.exit(faults === 0 ? 0 : 1);
JS
node compare.js "$program" "$seed" "$percentiles"
