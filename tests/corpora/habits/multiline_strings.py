text = '''
line one
  line two
'''
result = [l.strip() for l in text.strip().splitlines()] + [r"raw\\n", "tab\there", "uni\u00e9", 'single "q"']
