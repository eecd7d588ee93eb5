// W&B's own client for JavaScript and cairn, with testing/fake_wandb.cpp between them.
//
// W&B's client for JavaScript makes runs and logs to them. It knows no artifacts: only W&B's Python
// package does, which is not on npm. Therefore the requests that both make alike are those that make
// a run, and cairn writes its artifacts as those of a run that W&B's client made.
import {strict as assert} from 'node:assert';
import fs from 'node:fs';

import {assertAccepted, assertSame, cairn, checkpoint, compareRequests, kLarge, kSmall, newPath,
        requestOf, startFake, vendor} from './second_opinion.mjs';

const fake = await startFake('wandb');
const environment = {WANDB_BASE_URL: fake.url, WANDB_API_KEY: fake.key};
Object.assign(process.env, environment);
const wandb = vendor('@wandb/sdk').default;

const run = await wandb.init(
    {entity: 'entity', project: 'project', id: 'their-run', config: {a: 1}});
run.log({loss: 0.5});
await run.finish();
const theirs = fake.taken();
assertAccepted(theirs);
requestOf(theirs, 'POST', '/files/entity/project/their-run/file_stream');

for (const size of [kSmall, kLarge]) {
  const file = checkpoint(size);
  const name = `wandb://entity/project/run/ep1-ba${size}-rank0.safetensors`;
  const back = newPath();
  await cairn({...environment, WANDB_RUN_ID: 'their-run'}, 'copy', file, name);
  const makesRun = fake.taken().filter(each => each.body?.includes('upsertBucket('));
  assert.ok(makesRun.every(each => JSON.parse(each.body).variables.name === 'their-run'));
  await cairn(environment, 'copy', name, back);
  assertSame(fs.readFileSync(back), file, `ours of ours, ${size} bytes`);
}

// --- The same requests ---------------------------------------------------------------------------

await cairn(environment, 'copy', checkpoint(kSmall), 'wandb://entity/project/own.safetensors');
const ours = fake.taken();
const upserts = [theirs, ours].map(all => {
  const found = all.find(each => each.body?.includes('upsertBucket('));
  assert.ok(found, 'no request makes a run');
  return found;
});
compareRequests('upsertBucket', ...upserts, {
  documented: {'authorization': 'same', 'content-type': 'same'},
});
// Each variable of cairn's has the type that theirs has, and goes to the same field.
const [their, our] = upserts.map(each => JSON.parse(each.body));
const pairsOf = (query, pattern) => [...query.matchAll(pattern)].map(([, a, b]) => `${a}: ${b}`);
for (const pattern of [/\$(\w+): (\w+!?)/g, /(\w+): (\$\w+)/g]) {
  const known = new Set(pairsOf(their.query, pattern));
  const used = pairsOf(our.query, pattern);
  assert.ok(used.length > 0);
  for (const pair of used) assert.ok(known.has(pair), `${pair} is not in W&B's own mutation`);
}
assert.ok(Object.keys(our.variables).every(name => name in their.variables));
console.log(`upsertBucket: ${Object.keys(our.variables).length} variables alike`);
fake.stop();
