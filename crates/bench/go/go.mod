module quadrille-bench-go

go 1.23
