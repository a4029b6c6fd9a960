// Package remote opens datasets in object stores and on servers, by an address in place of a directory:
// s3://BUCKET/PATH, gs://BUCKET/PATH, https://SERVER/PATH, hf://datasets/OWNER/NAME@REVISION/PATH. They are downloaded
// to a cache, a folder of this machine, and opened there. docs/machines.md has more.
//
// Credentials come from where the provider's own programs take them, and are in no error. What comes is compared with
// the checksums of the dataset's manifest. Processes share a cache, and bring nothing twice.
package remote
