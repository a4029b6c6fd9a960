// Package arrow reads tables in Arrow: files, streams and Feather 2. Batches of records that are not compressed are
// read some rows at a time (rows.go); others as a whole. Schemas are walked before the library sees them (schema.go).
package arrow
