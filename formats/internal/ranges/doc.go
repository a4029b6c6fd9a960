// Package ranges reads objects that lie elsewhere, by ranges of bytes: in stores that speak S3 (s3://, gs://), on
// servers that speak HTTP (https://, http://), and on the hub of Hugging Face (hf://). It also writes to those that
// speak S3.
//
// # Basics
//
// Package address takes addresses apart. Client.Object names an object, which has a size, a version, and ReadAt. Fetch
// reads much of it, in ranges of 8 MiB of which eight are under way at a time; Ahead reads spans of it in their order.
//
// All kinds of address are read in the same way, by GET with a Range. They differ in the request alone: its URL, and
// what says who asks. Credentials come from where the provider's own programs look for them: the environment, profile
// files, the metadata of a machine. They are in no address, and in no error.
//
// # Faults
//
// A store may answer 503, cut an answer, or stop in its midst. A read that fails so is tried again, from the byte on
// that is missing, after a pause that doubles; one that brings no byte for Client.Stall is given up and tried again.
//
// The first answer pins the version: later reads ask for that ETag, or for nothing later than that time, and refuse
// anything else with ErrChanged. So what was read of an object is of one version, or an error.
package ranges
