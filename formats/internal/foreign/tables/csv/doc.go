// Package csv reads tables in CSV. What a column holds is found out from all of its cells.
package csv
