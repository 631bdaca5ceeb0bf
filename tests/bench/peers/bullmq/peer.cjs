// One phase of BullMQ, told in one line of JSON: node peer.cjs PHASE PORT JOBS BODY ANSWER CALLS
//
// add: jobs by `addBulk` in batches of 64, so many calls at once: the fastest way that BullMQ offers, a pipeline of one script a job.
// process: one worker with 64 jobs in flight; its processor answers at once. Each script that ends a job also takes the next one.
//
// `removeOnComplete: {count: 64}`: the answer is stored in the job's hash and deleted with it when 64 later ones have ended. With a
// count of 0 it would stand in the stream of events only. That stream, which no setting takes away, holds each answer too.
'use strict';

const { Queue, Worker } = require('bullmq');
const { version } = require('bullmq/package.json');

const BATCH = 64;
const KEPT = 64;

const [phase, ...numbers] = process.argv.slice(2);
const [port, jobs, bodySize, answerSize, calls] = numbers.map(Number);
const connection = { host: '127.0.0.1', port };

/** Adds all jobs; seconds. */
async function add() {
  const queue = new Queue('bench', { connection });
  await queue.waitUntilReady();
  const body = 'a'.repeat(bodySize);
  const batches = [];
  for (let from = 0; from < jobs; from += BATCH) {
    const size = Math.min(BATCH, jobs - from);
    batches.push(Array.from({ length: size }, () => ({ name: 'job', data: { body } })));
  }
  const began = process.hrtime.bigint();
  const left = batches[Symbol.iterator]();
  const call = async () => {
    for (const batch of left) await queue.addBulk(batch);
  };
  await Promise.all(Array.from({ length: calls }, call));
  const took = seconds(began);
  await queue.close();
  return took;
}

/** Processes all jobs; seconds. */
async function work() {
  const answer = 'b'.repeat(answerSize);
  const options = { connection, autorun: false, concurrency: 64, removeOnComplete: { count: KEPT } };
  const worker = new Worker('bench', async () => answer, options);
  await worker.waitUntilReady();
  const began = process.hrtime.bigint();
  const took = new Promise((resolve) => {
    let done = 0;
    worker.on('completed', () => {
      done += 1;
      if (done === jobs) resolve(seconds(began));
    });
  });
  worker.on('failed', (_, error) => fail(error));
  worker.on('error', fail);
  worker.run().catch(fail);
  const all = await took;
  await worker.close();
  return all;
}

function seconds(began) {
  return Number(process.hrtime.bigint() - began) / 1e9;
}

function fail(error) {
  console.error(error);
  process.exit(1);
}

const phases = { add, process: work };
phases[phase]().then((took) => console.log(JSON.stringify({ phase, jobs, seconds: took, version })), fail);
