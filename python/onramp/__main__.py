from onramp.cli import main

main()
