// Package parquet reads tables in Parquet. Footers are parsed by the library; pages are expanded and decoded here, some
// rows at a time, and each value is checked before it is used (pages.go, page_values.go, page_numbers.go).
package parquet
