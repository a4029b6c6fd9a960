// Package guard has libraries that parse hostile tables take their memory from the ledger, and makes errors of their
// panics.
package guard
