// Package address takes addresses apart: of objects in stores that speak S3 (s3://, gs://), on servers that speak HTTP
// (https://, http://), and on the hub of Hugging Face (hf://). It asks nobody: package ranges does.
package address
