// Google's own client and cairn, with testing/fake_gcs.h between them. Google's client speaks the
// JSON API, and the XML API for uploads in parts; cairn speaks the XML API. Tokens and uploads in
// parts are the requests that both make alike. For all others the test is that each reads what the
// other wrote.
//
// Two things cannot be compared. The address to which Google's client sends a service account's
// assertion is a constant there. It makes no request that is signed with an HMAC key.
import {strict as assert} from 'node:assert';
import fs from 'node:fs';
import path from 'node:path';

import {assertAccepted, assertSame, cairn, checkpoint, compareRequests, folder, kLarge, kSmall,
        newPath, requestOf, startFake, vendor} from './second_opinion.mjs';

const {Storage, TransferManager} = vendor('@google-cloud/storage');
const {Compute, UserRefreshClient} = vendor('google-auth-library');

const fake = await startFake('gcs');
const userFile = path.join(folder, 'user.json');
const user = {type: 'authorized_user', client_id: 'client', client_secret: fake.client_secret,
              refresh_token: fake.refresh_token, token_uri: `${fake.url}/token`};
fs.writeFileSync(userFile, JSON.stringify(user));
const robotFile = path.join(folder, 'robot.json');
const robot = {type: 'service_account', client_email: fake.account, private_key: fake.private_key,
               private_key_id: 'id', token_uri: `${fake.url}/token`};
fs.writeFileSync(robotFile, JSON.stringify(robot));
const common = {STORAGE_EMULATOR_HOST: fake.url, NO_GCE_CHECK: 'true', CLOUDSDK_CONFIG: folder};
const byKey = {...common, GCS_KEY: fake.key, GCS_SECRET: fake.secret};
const byUser = {...common, GOOGLE_APPLICATION_CREDENTIALS: userFile};
const byRobot = {...common, GOOGLE_APPLICATION_CREDENTIALS: robotFile};

const authClient = new UserRefreshClient({
  clientId: user.client_id, clientSecret: user.client_secret, refreshToken: user.refresh_token,
  endpoints: {oauth2TokenUrl: user.token_uri},
});
const storage = new Storage({
  apiEndpoint: fake.url, projectId: 'project', authClient, useAuthWithCustomEndpoint: true,
  retryOptions: {maxRetries: 0},
});
// Google's client makes addresses of the XML API by itself, as
// https://BUCKET.HOST/NAME without the port.
const request = storage.authClient.request.bind(storage.authClient);
storage.authClient.request = options =>
    request({...options,
             url: options.url.replace('https://bucket.127.0.0.1/', `${fake.url}/bucket/`)});
const bucket = storage.bucket('bucket');
const transfers = new TransferManager(bucket);
// The fake takes the token that it gave last, and cairn has had one meanwhile.
const withNewToken = async what => {
  authClient.credentials.access_token = authClient.credentials.expiry_date = undefined;
  return what();
};
const read = name => withNewToken(async () => (await bucket.file(name).download())[0]);

// --- There and back ------------------------------------------------------------------------------

for (const environment of [byKey, byUser, byRobot]) {
  for (const size of [kSmall, kLarge]) {
    const file = checkpoint(size);
    const name = `run/a b+ü&${size}.safetensors`;
    await cairn(environment, 'copy', file, `gs://bucket/${name}`, '--overwrite');
    assertAccepted(fake.taken(), [404]);  // cairn looks first
    assertSame(await read(name), file, `theirs of ours, ${size} bytes`);
    const [metadata] = await bucket.file(name).getMetadata();
    assert.match(metadata.metadata['cairn-write'], /^[0-9a-f]{32}$/);

    const bytes = fs.readFileSync(file);
    await withNewToken(() => bucket.file('theirs/a b+ü&.safetensors').save(bytes, {resumable: false}));
    // save() alone would begin the upload without a token, as it does for every other address than
    // Google's.
    const [uri] = await bucket.file('theirs/resumable.safetensors').createResumableUpload();
    await bucket.file('theirs/resumable.safetensors').save(bytes, {resumable: true, uri, chunkSize: 4 << 20});
    await transfers.uploadFileInChunks(file, {uploadName: 'theirs-in-parts.safetensors', validation: 'crc32c',
                                              chunkSizeBytes: 8 << 20});
    await bucket.file('theirs/resumable.safetensors').copy(bucket.file('theirs/copied.safetensors'));
    for (const theirs of ['theirs/a b+ü&.safetensors', 'theirs/resumable.safetensors', 'theirs-in-parts.safetensors',
                          'theirs/copied.safetensors']) {
      const back = newPath();
      await cairn(environment, 'copy', `gs://bucket/${theirs}`, back);
      assertSame(fs.readFileSync(back), file, `ours of theirs, ${size} bytes`);
    }
    assertAccepted(fake.taken(), [308, 404]);
  }
}

// Pages of two: with autoPaginate maxResults would be the most of all pages together.
const listed = await withNewToken(async () => {
  const names = [];
  for (let query = {prefix: 'theirs/', maxResults: 2, autoPaginate: false}; query !== null;) {
    const [files, next] = await bucket.getFiles(query);
    names.push(...files.map(each => each.name));
    query = next;
  }
  return names;
});
assert.deepEqual(listed, ['theirs/a b+ü&.safetensors', 'theirs/copied.safetensors', 'theirs/resumable.safetensors']);
const [, , {prefixes}] = await bucket.getFiles({delimiter: '/', autoPaginate: false});
assert.deepEqual(prefixes, ['run/', 'theirs/']);
await bucket.file('theirs/copied.safetensors').delete();
assert.deepEqual(await bucket.file('theirs/copied.safetensors').exists(), [false]);
await assert.rejects(
    bucket.file('theirs/resumable.safetensors').save('x', {resumable: false,
                                               preconditionOpts: {ifGenerationMatch: 0}}),
    {code: 412});

// Google's client signs URLs with a service account's key: cairn reads one, and one takes a write.
const signing = new Storage({apiEndpoint: fake.url, projectId: 'project', credentials: robot});
const signed = (name, more) => signing.bucket('bucket').file(name).getSignedUrl(
    {version: 'v4', expires: Date.now() + 600_000, ...more});
const small = checkpoint(kSmall);
const extensionHeaders = {'x-goog-if-generation-match': '0'};
const [toWrite] = await signed('theirs/by url.safetensors', {action: 'write', extensionHeaders});
const put = () => fetch(toWrite, {method: 'PUT', headers: extensionHeaders,
                                  body: fs.readFileSync(small)});
assert.equal((await put()).status, 200);
assert.equal((await put()).status, 412);
const back = newPath();
const [toRead] = await signed('theirs/by url.safetensors', {action: 'read'});
await cairn(common, 'copy', toRead, back);
assertSame(fs.readFileSync(back), small, 'ours of a URL that they signed');
assert.equal((await fetch(`${toRead.slice(0, -2)}00`)).status, 403);
fake.taken();

// --- The same requests ---------------------------------------------------------------------------

const ofClient = ['x-goog-api-client', 'x-goog-user-project'];
await cairn(byUser, 'copy', small, 'gs://bucket/same/ours.safetensors');
let ours = fake.taken();
await read('same/ours.safetensors');
let theirs = fake.taken();
const asked = [theirs, ours].map(each => requestOf(each, 'POST', '/token'));
compareRequests('token of a user', ...asked, {documented: {'content-type': 'same'}, ofClient});
assert.deepEqual(...asked.map(each => [...new URLSearchParams(each.body)].sort()));

const {GCE_METADATA_HOST: before} = process.env;
process.env.GCE_METADATA_HOST = new URL(fake.url).host;
await new Compute().getAccessToken();
theirs = fake.taken();
await cairn({STORAGE_EMULATOR_HOST: fake.url, CLOUDSDK_CONFIG: folder,
             GCE_METADATA_HOST: process.env.GCE_METADATA_HOST}, 'ls', 'gs://bucket/same');
ours = fake.taken();
process.env.GCE_METADATA_HOST = before ?? '';
const kMachine = '/computeMetadata/v1/instance/service-accounts/';
compareRequests('token of a machine', requestOf(theirs, 'GET', kMachine),
                requestOf(ours, 'GET', kMachine),
                {documented: {'metadata-flavor': 'same'}, ofClient});

const large = checkpoint(kLarge);
await cairn(byUser, 'copy', large, 'gs://bucket/same-ours-large.safetensors');
ours = fake.taken();
await withNewToken(() => transfers.uploadFileInChunks(large, {
  uploadName: 'same-theirs-large', validation: 'crc32c', chunkSizeBytes: 8 << 20,
  headers: {'content-type': 'application/octet-stream',
            'x-goog-meta-cairn-write': '0123456789abcdef0123456789abcdef'},
}));
theirs = fake.taken();
assertAccepted(theirs);
const kOfAll = {'authorization': /^Bearer canary-token-\d+$/};
compareRequests('initiate a multipart upload', requestOf(theirs, 'POST', 'uploads'),
                requestOf(ours, 'POST', 'uploads'), {
  documented: {
    ...kOfAll, 'content-type': 'same', 'x-goog-meta-cairn-write': /^[0-9a-f]{32}$/,
  },
  ofClient,
});
compareRequests('upload a part', requestOf(theirs, 'PUT', 'partNumber=1'),
                requestOf(ours, 'PUT', 'partNumber=1'),
                {documented: {...kOfAll, 'x-goog-hash': 'same'}, ofClient});
compareRequests('complete a multipart upload', requestOf(theirs, 'POST', 'uploadId='),
                requestOf(ours, 'POST', 'uploadId='),
                {documented: {...kOfAll, 'content-type': /./}, ofClient});
fake.stop();
