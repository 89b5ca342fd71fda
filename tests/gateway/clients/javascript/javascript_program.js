// AWS's SDK for JavaScript: streams, parts, conditions, pages, deletions and presigned URLs below a place, BUCKET or BUCKET/PREFIX.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { Readable } from "node:stream";
import {
  CopyObjectCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  HeadObjectCommand,
  PutObjectCommand,
  paginateListObjectsV2,
  S3Client,
} from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";
import { getSignedUrl } from "@aws-sdk/s3-request-presigner";

const [Bucket, ...prefix] = process.argv[2].split("/");
const folder = [...prefix, "javascript"].join("/");
const s3 = new S3Client();

const key = (name) => ({ Bucket, Key: `${folder}/${name}` });
const bytesOf = async (answer) => Buffer.from(await answer.Body.transformToByteArray());
const get = async (name, conditions = {}) => s3.send(new GetObjectCommand({ ...key(name), ...conditions }));
const put = async (name, Body, headers = {}) => s3.send(new PutObjectCommand({ ...key(name), Body, ...headers }));
const refused = async (request, status) =>
  assert.rejects(request, (error) => {
    assert.equal(error.$metadata.httpStatusCode, status, String(error));
    return true;
  });

// Parts of a stream, each with the checksum that the SDK adds by itself.
const large = randomBytes(12_000_000);
const upload = new Upload({
  client: s3,
  params: { ...key("large"), Body: Readable.from([large]), Metadata: { origin: "javascript" } },
  partSize: 5 << 20,
});
const { ETag } = await upload.done();
assert.match(ETag, /-3"$/);
assert.deepEqual(await bytesOf(await get("large")), large);
assert.deepEqual(await bytesOf(await get("large", { Range: "bytes=5-104" })), large.subarray(5, 105));
assert.deepEqual((await s3.send(new HeadObjectCommand(key("large")))).Metadata, { origin: "javascript" });

// A stream of a length that is stated, with its checksum in a trailer.
for (const ChecksumAlgorithm of ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"]) {
  const pieces = [large.subarray(0, 70_000), large.subarray(70_000, 200_000)];
  await put("streamed", Readable.from(pieces), { ChecksumAlgorithm, ContentLength: 200_000 });
  assert.deepEqual(await bytesOf(await get("streamed")), large.subarray(0, 200_000), ChecksumAlgorithm);
}
await refused(put("streamed", "other bytes", { ChecksumSHA256: "A".repeat(43) + "=" }), 400);

// Conditions.
const created = await put("log/0", "first", { IfNoneMatch: "*" });
await refused(put("log/0", "second", { IfNoneMatch: "*" }), 412);
const { ETag: second } = await put("log/0", "second", { IfMatch: created.ETag });
await refused(put("log/0", "third", { IfMatch: created.ETag }), 412);
await refused(get("log/0", { IfNoneMatch: second }), 304);
await refused(get("missing"), 404);

// Copies, names with signs, pages, and the deletion of many.
await s3.send(new CopyObjectCommand({ ...key("copied é+%2F"), CopySource: `${Bucket}/${folder}/large` }));
assert.deepEqual(await bytesOf(await get("copied é+%2F")), large);
for (let number = 0; number < 5; number++) await put(`many/${number}`, `${number}`);
const names = [];
for await (const page of paginateListObjectsV2({ client: s3, pageSize: 2 }, { Bucket, Prefix: `${folder}/many/` })) {
  names.push(...page.Contents.map((item) => item.Key));
}
assert.deepEqual(names, [0, 1, 2, 3, 4].map((number) => `${folder}/many/${number}`));
const Objects = [...names, key("missing").Key].map((Key) => ({ Key }));
const removed = await s3.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects } }));
assert.equal(removed.Deleted.length, 6);

// Presigned URLs.
const written = await fetch(await getSignedUrl(s3, new PutObjectCommand(key("signed"))), { method: "PUT", body: "x" });
assert.equal(written.status, 200);
assert.equal(await (await fetch(await getSignedUrl(s3, new GetObjectCommand(key("signed"))))).text(), "x");
