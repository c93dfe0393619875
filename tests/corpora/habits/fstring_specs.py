x = 1234.5678
n = 42
name = "ann"
width = 10
result = [f"{x:.2f}", f"{x:,.1f}", f"{x:10.1f}|", f"{n:05d}", f"{n:x}", f"{n:#b}", f"{n:+d}", f"{name:>{width}}|", f"{name!r:>8}", f"{x:e}", f"{0.000012345:g}", f"{1e10:g}", f"{n=}", f"{name = }", f"{0.5:.0%}", f"{{}}", f"{n:^9}|", f"{n:*<6}"]
