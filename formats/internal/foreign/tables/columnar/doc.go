// Package columnar has what files of tables are read as, whatever their format: fields, which describe columns, and
// batches of rows, a vector for each column. Package tables makes graphs of them.
package columnar
