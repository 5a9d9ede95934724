from rldyno.cli import main

main()
